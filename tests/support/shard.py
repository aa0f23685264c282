"""Shard: a real ShardCore in this process, small and on a free port, with plain sockets to it.

    with Shard(tmp_path, sync_flush=True) as shard:
        shard.topic("t")
        client = shard.connect()
        client.put(send("t", b"body", opaque=7))
        assert client.reply().opaque == 7

No broker's control side runs behind the core. What the reactor hands over to control stays in
`shard.reports()` until the test takes it, so that a test can act as the control thread.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import driven_clock
from support.waiting import HANG_S

from cext.flow.shard_core import ShardCore
from rmq.broker.core_options import core_options
from rmq.broker.tables.deleted_topics import deleted_topics
from rmq.codes import FLAG_ONE_WAY
from rmq.config import load_properties
from rmq.format.message import StoredMessage, decode_messages, tags_code
from rmq.format.remoting import JSON, Command, decode, encode, field_texts

MIB = 1 << 20
TIMEOUT_S = HANG_S
REQUEST, CLOSED, OPENED, EVENT = range(4)
ANYWHERE = "/a store that is nowhere"
HELD_MS = 3_600_000  # for a held pull that must not time out, however slow the machine is
SMALL = {
    # A core that starts reads its newest segment to the end, and the slots of the key index.
    "segment_bytes": 16 * MIB,
    "queue_file_entries": 3000,
    "index_slots": 1000,
    "index_entries": 100_000,
    "connections_max": 64,
    "reply_buffers": 256,
    "jumbo_buffers": 8,
    "pulls_max": 256,
    "queue_chunks": 4096,
    "disk_readers": 1,
    # A busy disk must not cause refusals (tests/fault tests those). On a driven clock, which runs
    # fast while a test waits, these 20 minutes are one.
    "send_wait_ms": 1_200_000,
    "page_cache_busy_ms": 1_200_000,
    "sync_flush_timeout_ms": 600_000,
    "suspend_max_ms": HELD_MS,
}


def readable(fd: int, seconds: float) -> bool:
    """Waits until the descriptor is readable. Works with any number of it, unlike select()."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Client:
    """One connection: sends bytes and reads commands, without any client logic."""

    def __init__(self, port: int, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self.socket.makefile("rb", buffering=MIB)

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def put(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def reply(self) -> Command:
        """Returns the next command. EOFError if the connection closes before its end."""
        head = self._stream.read(4)
        length = int.from_bytes(head, "big")
        if len(head) < 4 or len(frame := self._stream.read(length)) < length:
            raise EOFError
        return decode(frame)

    def replies(self, count: int) -> dict[int, Command]:
        """Returns the next commands by opaque; two of the same opaque are an error."""
        found: dict[int, Command] = {}
        for _ in range(count):
            command = self.reply()
            assert command.opaque not in found, f"two answers to {command.opaque}"
            found[command.opaque] = command
        return found

    def ask(self, frame: bytes) -> Command:
        self.put(frame)
        return self.reply()

    def is_silent(self, seconds: float = 0.05) -> bool:
        """Whether nothing arrives for that long. Call it only between whole frames."""
        return not readable(self.socket.fileno(), seconds)

    def is_closed(self) -> bool:
        """Whether the broker closes the connection without sending anything more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def reset(self) -> None:
        """Closes so that the broker sees an error instead of an end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@cache
def _options_anywhere() -> dict[str, Any]:
    settings = {
        "storePathRootDir": ANYWHERE, "listenPort": "0", "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
    }  # fmt: skip
    return core_options(load_properties(None, settings))


def usual_options(store: Path) -> dict[str, Any]:
    """The options of a broker with default settings. They are made once, since they need a table of
    400 settings and a certificate."""
    given = {
        name: value.replace(ANYWHERE, str(store), 1) if isinstance(value, str) else value
        for name, value in _options_anywhere().items()
    }
    config = store / "config"
    return {**given, "deleted_topics": deleted_topics(config) if config.exists() else {}}


class Shard:
    """`options` are those of ShardCore, instead of the small ones."""

    def __init__(self, directory: Path, **options: Any) -> None:
        (directory / "store").mkdir(exist_ok=True)
        given = {**usual_options(directory / "store"), **SMALL, **options}
        Path(given["consumequeue_dir"]).mkdir(exist_ok=True)
        self.core = ShardCore(given)
        self.clients: list[Client] = []
        self.stopped = False
        self._kept: list[tuple[int, int, bytes]] = []

    def __enter__(self) -> Shard:
        self.core.open()
        self.core.start()
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        try:
            for client in self.clients:
                client.close()
            if failure is None and not self.stopped:
                self.expect_all_given_back()
        finally:
            self.stop()  # in any case: no thread of the core may outlive its test

    def stop(self) -> None:
        """Stops the core before the end of the block."""
        self.stopped = True
        self.core.stop()

    def expect_all_given_back(self) -> None:
        """Waits until no connection, buffer or pull is in use, and nothing removed waits."""
        end = time.monotonic() + TIMEOUT_S
        names = ("request", "jumbo", "reply", "piece", "pull", "fetch")
        while True:
            pools = self.core.pools()
            used = {name: pools[name][2] for name in names if pools[name][2] != 0}
            stats = self.core.stats()
            if not used and stats["connections"] == stats["removed_waiting"] == 0:
                return
            if time.monotonic() > end:
                raise AssertionError(f"still in use: {used}, {stats}")
            self.core.poll()  # clients with much at control are read again when control has it
            driven_clock.pass_some_time()  # requests that no test answered are given up
            time.sleep(0.002)

    def connect(self, receive_buffer: int = 0) -> Client:
        client = Client(self.core.port, receive_buffer)
        self.clients.append(client)
        return client

    # ---- what the control thread would tell the core

    def topic(self, name: str, read: int = 1, write: int = 1, perm: int = 6) -> None:
        self.core.put_topic(name.encode(), read, write, perm, 0)

    def group(self, name: str, *topics: str, tags: Sequence[str] | None = None) -> None:
        """A group that may consume, with subscriptions of version 1."""
        self.core.put_group(name.encode(), 1, 1)
        codes = None if tags is None else [tags_code(tag) for tag in tags]
        for topic in topics:
            self.core.put_subscription(name.encode(), topic.encode(), 1, codes, 0)

    # ---- what the core tells the control thread

    def reports(self, kind: int, count: int = 1) -> list[tuple[int, bytes]]:
        """Waits for the next `count` reports of this kind, and returns (connection, payload) of
        each. Others are kept."""
        end = time.monotonic() + TIMEOUT_S
        found: list[tuple[int, bytes]] = []
        while True:
            for report in list(self._kept):
                if report[0] == kind and len(found) < count:
                    self._kept.remove(report)
                    found.append(report[1:])
            if len(found) >= count:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{len(found)} reports of kind {kind}, not {count}")
            readable(self.core.control_fd, 0.05)
            self._kept += self.core.poll()

    def kept(self, kind: int) -> list[tuple[int, bytes]]:
        """The reports of this kind that have not been taken."""
        self._kept += self.core.poll()
        return [report[1:] for report in self._kept if report[0] == kind]

    def taken(self, kind: int) -> list[tuple[int, bytes]]:
        """Takes all reports of this kind."""
        found = self.kept(kind)
        self._kept = [report for report in self._kept if report[0] != kind]
        return found

    def until(self, condition: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """Waits until the core's counters satisfy the condition, and returns them."""
        end = time.monotonic() + TIMEOUT_S
        while not condition(counters := self.core.stats()):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain: {counters}")
            time.sleep(0.002)
        return counters

    def look_at_clock(self) -> None:
        """Waits for a turn that began after this call, and so has read the clock since."""
        before = self.core.stats()["turns"]
        self.until(lambda counters: counters["turns"] >= before + 2)


@contextmanager
def running_shard(directory: Path, **options: Any) -> Iterator[Shard]:
    with Shard(directory, **options) as shard:
        yield shard


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    """A shard with topic t (1 queue) and group g subscribed to it."""
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.group("g", "t")
        yield shard


# ---- requests


def request(
    code: int, opaque: int = 1, body: bytes = b"", one_way: bool = False, kind: int = JSON,
    **fields: Any,
) -> bytes:  # fmt: skip
    command = Command(
        code=code, opaque=opaque, flag=FLAG_ONE_WAY if one_way else 0, language="JAVA",
        version=477, fields=field_texts(fields), body=body, serialize_type=kind,
    )  # fmt: skip
    return encode(command)


def send(
    topic: str, body: bytes = b"body", opaque: int = 1, queue: int = 0, code: int = 310,
    one_way: bool = False, kind: int = JSON, **fields: Any,
) -> bytes:  # fmt: skip
    short = {
        "a": "P", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1, "h": 0, "i": "",
        **fields,
    }  # fmt: skip
    return request(code, opaque, body, one_way, kind, **short)


def send_batch(topic: str, bodies: Sequence[bytes], opaque: int = 1, **fields: Any) -> bytes:
    packed = b"".join(
        struct.pack(">iiiii", 22 + len(body), 0, 0, 0, len(body)) + body + b"\0\0"
        for body in bodies
    )
    return send(topic, packed, opaque, code=320, **{"m": "true", **fields})


def pull(
    group: str, topic: str, offset: int = 0, opaque: int = 1, hold_ms: int = 0, queue: int = 0,
    kind: int = JSON, **fields: Any,
) -> bytes:  # fmt: skip
    named = {
        "consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 2 if hold_ms else 0, "commitOffset": 0,
        "suspendTimeoutMillis": hold_ms, "subVersion": 1, **fields,
    }  # fmt: skip
    return request(11, opaque, kind=kind, **named)


def bodies(reply: Command) -> list[bytes]:
    return [message.body for message in messages(reply)]


def messages(reply: Command) -> list[StoredMessage]:
    assert reply.code == 0, (reply.code, reply.remark)
    return list(decode_messages(reply.body))
