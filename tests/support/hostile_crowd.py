"""Hostile crowd: clients that ask much and read nothing, and the memory that a process holds.

with ExitStack() as stack:
    deaf = crowd(stack, port, 60, b"".join(requests))     60 clients; each has sent what it could
    resident(pid), memory_group(256 << 20)
"""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.waiting import HANG_S

from rmq.format.remoting import Command, encode, field_texts

MIB = 1 << 20
GROUPS = Path("/sys/fs/cgroup/memory")


def request(code: int, opaque: int = 1, body: bytes = b"", **fields: object) -> bytes:
    return encode(
        Command(code=code, opaque=opaque, language="JAVA", fields=field_texts(fields), body=body)
    )


def pull(offset: int, group: str = "g", topic: str = "served", queue: int = 0) -> bytes:
    return request(
        11, consumerGroup=group, topic=topic, queueId=queue, queueOffset=offset, maxMsgNums=32,
        sysFlag=4, commitOffset=0, suspendTimeoutMillis=0, subVersion=1, subscription="*",
        expressionType="TAG",
    )  # fmt: skip


def crowd(
    stack: ExitStack, port: int, count: int, sent: bytes = b"", receive_buffer: int = 4096
) -> list[socket.socket]:
    """Makes `count` connections, each of which sends these bytes, as far as its socket takes them,
    and reads nothing."""
    clients = []
    for _ in range(count):
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(HANG_S)
        client.connect(("127.0.0.1", port))
        client.setblocking(False)
        if sent:
            with suppress(BlockingIOError, ConnectionError):
                client.send(sent)
        clients.append(client)
    return clients


def resident(pid: int) -> int:
    """The resident memory of the process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@contextmanager
def files_allowed(count: int) -> Iterator[int]:
    """Raises this process's limit of open files to `count`, or as far as it may; yields the
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    may = count if unlimited else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(may, soft), hard))
    try:
        yield may
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def memory_group(limit: int) -> Iterator[list[str]]:
    """Makes a control group with this limit of memory, in bytes; yields the words in front of a
    command that must run in it. Skips the test without the right to make a group, or if the system
    has only groups of version 2."""
    group = GROUPS / f"rmq-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group for memory: {error}")
    try:
        yield ["/bin/sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"']
    finally:
        for _ in range(500):
            with suppress(OSError):
                group.rmdir()
                break


def group_events(words: list[str]) -> int:
    """How many processes of the group were killed for want of memory."""
    group = words[2].split("> ")[1].split("/cgroup.procs")[0]
    for line in Path(group, "memory.oom_control").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0
