"""Affinity: which processors a shard's threads use, and which node its memory comes from.

The order at a shard's start is what makes this work without touching the compiled half:

    children_on(core)                  in the supervisor: the process begins on its own core, as
                                       batch work
    prefer_node(node)                  policy of the calling thread; later threads inherit it;
                                       then memory is taken and the threads are started
    pin_thread("rmq-reactor", core)    the one thread that gets a core to itself
    spread(node's processors)          when it serves: the other threads, now ordinary ones

So a shard that starts, which is 0.3 s of the interpreter's imports and of recovery, takes the core
that is its own anyway, and nothing of its siblings' cores.

The memory policy is MPOL_PREFERRED: pages come from the node as long as it has any, and from
elsewhere then, rather than an out-of-memory kill. set_mempolicy is called as a system call, through
ctypes: libnuma need not be installed. All say whether it worked; a container that forbids it costs
locality and nothing else.
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
    """This thread and those it starts run on these processors; why not, or nothing."""
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
    """Processes that this thread starts meanwhile begin on these processors (none: anywhere), and
    as batch work, which preempts nobody when it wakes, unless this one has a policy of its own."""
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
    """All threads of this process but `apart` may use these processors from now on (none: as
    before), and none is batch work any more; why not, or nothing."""
    wanted = set(cpus)
    failure = ""
    for path in Path("/proc/self/task").iterdir():
        thread = int(path.name)
        try:
            # Where it could not become batch work it need not cease to be; affinity comes first.
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
    """The thread of this process with this name; why not, or nothing."""
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
    """Memory of this thread and those it starts comes from the node; why not, or nothing."""
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
