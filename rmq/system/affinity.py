"""Affinity: which processors a shard's threads use, and which node its memory comes from.

The order at a shard's start is what makes this work without touching the compiled half:

    children_on(core)                  in the supervisor: the process begins on its own core, as
                                       batch work
    prefer_node(node)                  policy of the calling thread, which later threads inherit;
                                       then memory is taken and the threads are started
    pin_thread("rmq-reactor", core)    the one thread that gets a core to itself
    spread(node's processors)          when the shard serves: the other threads may use the node,
                                       and are ordinary threads from then on

So a starting shard (0.3 s of imports by the interpreter and of recovery) uses the core that is its
own anyway, and no time of its siblings' cores.

The memory policy is MPOL_PREFERRED: pages come from the node while it has any, and then from
elsewhere, so that no process is killed for want of memory. set_mempolicy is called as a system
call, through ctypes, so libnuma need not be installed. Each function returns why it failed, or "".
If a container forbids a call, only locality is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
MPOL_PREFERRED = 1
_NODES_MAX = 1024


def allow(cpus: Iterable[int]) -> str:
    """Binds this thread, and those that it will start, to these processors. Returns why that
    failed, or ""."""
    wanted = set(cpus)
    if not wanted:
        return ""
    try:
        os.sched_setaffinity(0, wanted)
    except OSError as error:
        return f"affinity {sorted(wanted)}: {error.strerror}"
    return ""


@contextlib.contextmanager
def children_on(cpus: Iterable[int]) -> Iterator[None]:
    """Processes that this thread starts within the block begin on these processors (none given:
    anywhere), and as batch work, which preempts no other thread when it wakes. They do not become
    batch work if this thread has a policy of its own."""
    before, policy = os.sched_getaffinity(0), os.sched_getscheduler(0)
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, set(cpus) or before)
    if policy == os.SCHED_OTHER:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        if policy == os.SCHED_OTHER:
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def spread(cpus: Iterable[int], apart: str) -> str:
    """Lets all threads of this process but the one named `apart` use these processors (none given:
    those of before), and makes ordinary threads of all. Returns why that failed, or ""."""
    wanted = set(cpus)
    failure = ""
    for path in Path("/proc/self/task").iterdir():
        thread = int(path.name)
        try:
            # Affinity comes first, as it may work where a change of the policy is forbidden.
            if wanted and (path / "comm").read_text().strip() != apart:
                os.sched_setaffinity(thread, wanted)
            if os.sched_getscheduler(thread) == os.SCHED_BATCH:
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        except (FileNotFoundError, ProcessLookupError):  # that thread has just ended
            continue
        except OSError as error:
            failure = failure or f"affinity {sorted(wanted)} of all threads: {error.strerror}"
    return failure


def pin_thread(name: str, cpus: Iterable[int]) -> str:
    """Binds this process's thread of that name to these processors. Returns why that failed,
    or ""."""
    wanted = set(cpus)
    if not wanted:
        return ""
    for path in Path("/proc/self/task").iterdir():
        try:
            if (path / "comm").read_text().strip() == name:
                os.sched_setaffinity(int(path.name), wanted)
                return ""
        except (FileNotFoundError, ProcessLookupError):  # that thread has just ended
            continue
        except OSError as error:
            return f"affinity {sorted(wanted)} of {name}: {error.strerror}"
    return f"no thread {name}"


def prefer_node(node: int) -> str:
    """Lets memory of this thread, and of those that it will start, come from the node. Returns why
    that failed, or ""."""
    if node < 0:
        return ""
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None or node >= _NODES_MAX:
        return f"memory of node {node}: not on {platform.machine()}"
    bits = ctypes.c_ulong * (_NODES_MAX // (8 * ctypes.sizeof(ctypes.c_ulong)))
    mask = bits()
    width = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask[node // width] = 1 << (node % width)
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel takes one bit less than the count it is given.
    done = libc.syscall(
        ctypes.c_long(number), ctypes.c_int(MPOL_PREFERRED), ctypes.byref(mask),
        ctypes.c_ulong(_NODES_MAX + 1),
    )  # fmt: skip
    if done != 0:
        return f"memory of node {node}: {os.strerror(ctypes.get_errno())}"
    return ""
