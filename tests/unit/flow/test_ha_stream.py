"""The log goes from a master to its slaves, as RocketMQ's brokers send it.

Goal: a slave's log is the master's, byte for byte, in whatever pieces it comes; sends wait for as
many slaves as are needed; what does not fit ends the connection and harms nothing. Method: two
cores and a socket between them, or a core and a test that speaks the protocol. Not shown here:
Apache's brokers (tests/compat), which broker is master.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority, Pair
from support.driven_clock import DrivenClock
from support.fed_slaves import log_of, queues_of
from support.page_cache import drop_from_page_cache
from support.shard import EVENT, MIB, Shard, bodies, pull, send
from support.waiting import HANG_S

from cext.net.tls import TlsContext
from cext.net.tls_stream import TlsClientContext, TlsStream
from rmq.errors import StoreError

pytestmark = pytest.mark.still_clock

CLOSED_CONNECTION = 1
HEAD = struct.Struct(">qi")
REPORT = struct.Struct(">q")
SEGMENT_BYTES = 1 * MIB
NEAR_BYTES = 30_000
MALFORMED, ELSEWHERE, CORRUPT = 2, 3, 4
SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 11, 12


class Link:
    """The test's end of an HA connection."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        end.settimeout(HANG_S)

    def report(self, offset: int) -> None:
        self.socket.sendall(REPORT.pack(offset))

    def reported(self) -> int:
        """The next offset that the core reports."""
        return int(REPORT.unpack(self.exactly(REPORT.size))[0])

    def last_report(self) -> int | None:
        """The next offset that the core reports; None: the core has closed the connection."""
        try:
            return self.reported()
        except (AssertionError, ConnectionResetError):
            return None

    def until_reported(self, offset: int) -> None:
        while self.reported() < offset:
            pass

    def frame(self) -> tuple[int, bytes]:
        offset, count = HEAD.unpack(self.exactly(HEAD.size))
        return offset, self.exactly(count)

    def log(self, start: int, end: int) -> bytes:
        """The bytes of the log between these offsets, from consecutive frames."""
        found = b""
        while start + len(found) < end:
            offset, piece = self.frame()
            assert offset == start + len(found) or not piece
            found += piece
        return found

    def send(self, offset: int, data: bytes) -> None:
        self.socket.sendall(HEAD.pack(offset, len(data)) + data)

    def exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            assert piece, "the core closed the connection"
            found += piece
        return found

    def is_closed(self) -> bool:
        """Reads until the core closes the connection; what comes before that is ignored."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection, with the options that brokers set."""
    ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    for each in ends:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ends


class Master(Shard):
    """A core with an HA port: whoever connects there is its slave."""

    def __init__(self, directory: Path, **options: Any) -> None:
        directory.mkdir(exist_ok=True)
        # No slave counts as late on a busy machine, except in tests that are about this.
        given = {"segment_bytes": SEGMENT_BYTES, "slave_timeout_ms": 600_000, **options}
        super().__init__(directory, **given)
        self.listener = socket.create_server(("127.0.0.1", 0))

    def __enter__(self) -> Master:
        super().__enter__()
        self.topic("t")
        self.group("g", "t")
        return self

    def __exit__(self, failure: object, *rest: object) -> None:
        super().__exit__(failure, *rest)
        self.listener.close()

    def needs(self, slaves: int, **changed: int) -> None:
        self.core.set_ha(*{**HA, "slaves_needed": slaves, **changed}.values())

    def connection(self) -> socket.socket:
        """Makes a connection of a slave and returns the slave's end."""
        ours, accepted = connected(self.listener)
        accepted.setblocking(False)
        self.core.adopt_slave(accepted.detach())
        return ours

    def slave(self, offset: int = 0) -> Link:
        link = Link(self.connection())
        link.report(offset)
        return link

    def acked(self) -> list[int]:
        return sorted(row[3] for row in self.core.ha_connections())


HA = {"slaves_needed": 0, "send_bytes": MIB, "heartbeat_ms": 5000, "silence_ms": 20_000,
      "ack_durable": 0}  # fmt: skip


class Slave(Shard):
    """A core that is a slave. follow() connects it to a master."""

    def __init__(self, directory: Path, **options: Any) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(directory, **{"segment_bytes": SEGMENT_BYTES, **options})

    def __enter__(self) -> Slave:
        super().__enter__()
        assert self.core.demote()
        self.topic("t")
        self.group("g", "t")
        return self

    def __exit__(self, failure: object, *rest: object) -> None:
        if not self.stopped:
            self.core.leave_master()
        super().__exit__(failure, *rest)

    def follow(self, master: Master) -> int:
        return self.adopt(master.connection())

    def follow_by_tls(self, master: Master, pair: Pair) -> int:
        """Follows by TLS. pair: the master's certificate, which the slave does not check."""
        ours, accepted = connected(master.listener)
        for each in (ours, accepted):
            each.setblocking(False)
        shown = TlsContext(str(pair.certificate), str(pair.key), None, None, "none")
        client = TlsStream(ours.fileno(), TlsClientContext(None, False, None, None, None), False)
        server = TlsStream(accepted.fileno(), shown, True)
        done = {client: False, server: False}
        while not all(done.values()):
            for each in done:
                done[each] = done[each] or bool(each.handshake())
        master.core.adopt_slave(accepted.detach(), 0, server)
        connection: int = self.core.follow_master(ours.detach(), 0, client)
        return connection

    def adopt(self, end: socket.socket, whole: bool = False) -> int:
        end.setblocking(False)
        connection: int = self.core.follow_master(end.detach(), int(whole))
        return connection

    def by_hand(self, whole: bool = False) -> Link:
        """Connects the slave to the test, which acts as its master."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours, theirs = connected(listener)
            self.adopt(theirs, whole)
        return Link(ours)

    def failure(self) -> int:
        """The reason why the slave's connection to the master ended."""
        self.reports(CLOSED_CONNECTION)
        failure: int = self.core.ha_client()[4]
        return failure

    def until_has(self, end: int) -> None:
        self.until(lambda stats: stats["log_dispatched"] == end)


@contextmanager
def pair(directory: Path, **options: Any) -> Iterator[tuple[Master, Slave]]:
    with (
        Master(directory / "master", **options) as master,
        Slave(directory / "slave", **options) as slave,
    ):
        yield master, slave


def fill(master: Shard, count: int, size: int = 300, opaque: int = 1000) -> int:
    """Sends messages of random sizes; returns where the log ends after them."""
    made, client = random.Random(count), master.connect()
    frames = [send("t", made.randbytes(made.randrange(1, size)), opaque + n) for n in range(count)]
    for start in range(0, count, 64):
        client.put(*frames[start : start + 64])
        assert {each.code for each in client.replies(len(frames[start : start + 64])).values()} == {
            0
        }
    return int(master.core.log_range()[1])


def same_logs(directory: Path, end: int) -> None:
    """The master and slave of pair(), which have stopped, have the same log and the same queues."""
    master, slave = directory / "master" / "store", directory / "slave" / "store"
    assert log_of(slave, end) == log_of(master, end)
    assert queues_of(slave) == queues_of(master)


# ------------------------------------------------------------------- a master and a slave


def test_a_slave_gets_what_was_there_and_what_comes(tmp_path: Path) -> None:
    with pair(tmp_path) as (master, slave):
        end = fill(master, 9000)  # the log has several segments
        assert end > 2 * SEGMENT_BYTES
        slave.follow(master)
        slave.until_has(end)
        end = fill(master, 2000, opaque=20_000)
        slave.until_has(end)
        consumer = slave.connect()
        found = bodies(consumer.ask(pull("g", "t", 10_990)))
        assert found and found == bodies(master.connect().ask(pull("g", "t", 10_990)))
        master.until(lambda _: master.acked() == [end])
        slave.stop()
        master.stop()
    same_logs(tmp_path, end)


def test_history_that_is_not_in_memory_comes_from_the_disk(tmp_path: Path) -> None:
    """A program that reads files on this machine may bring pages back into memory: then the test
    tries again with a longer log."""
    until, opaque = time.monotonic() + HANG_S, 1000
    with pair(tmp_path, ring_bytes=MIB, record_max_bytes=256 << 10) as (master, slave):
        while master.core.stats()["ha_reads"] == 0:
            assert time.monotonic() < until, "the log is always in memory"
            end = fill(master, 9000, opaque=opaque)
            opaque += 9000
            master.core.sync_log(end)
            drop_from_page_cache(tmp_path / "master" / "store" / "commitlog")
            slave.follow(master)
            slave.until_has(end)
            slave.core.leave_master()
            assert slave.failure() == 1
        slave.stop()
        master.stop()
    same_logs(tmp_path, end)


def test_a_slave_that_comes_again_goes_on_where_it_was(tmp_path: Path) -> None:
    comes_again(tmp_path, Slave.follow, 5, 700)


def comes_again(
    tmp_path: Path, follow: Callable[[Slave, Master], object], times: int, count: int
) -> None:
    """Connects the slave so many times, and sends so many messages each time."""
    with pair(tmp_path) as (master, slave):
        end = 0
        for number in range(times):
            follow(slave, master)
            end = fill(master, count, opaque=1 + 4000 * number)
            slave.until_has(end)
            master.until(lambda _, end=end: master.acked() == [end])
            slave.core.leave_master()
            assert slave.failure() == 1
        assert master.core.stats()["ha_bytes_sent"] == end
        slave.stop()
        master.stop()
    same_logs(tmp_path, end)


def test_sends_wait_for_the_slave_and_are_answered_by_its_ack(tmp_path: Path) -> None:
    with Master(tmp_path / "master") as master:
        link = master.slave()
        master.until(lambda _: master.acked() == [0])
        master.needs(1)
        client = master.connect()
        client.put(send("t", b"a", 5), send("t", b"b", 6))
        end = len(link.log(0, 1))  # records go to the slave before it acknowledges them
        assert client.is_silent()
        link.report(end)
        assert {each.code for each in client.replies(2).values()} == {0}
        # A send with WAIT=false waits for no slave.
        client.put(send("t", b"c", 7, i="WAIT\x01false\x02"))
        assert client.reply().code == 0
        link.close()


def test_of_several_slaves_as_many_are_waited_for_as_are_needed(tmp_path: Path) -> None:
    with Master(tmp_path / "master") as master:
        links = [master.slave() for _ in range(3)]
        master.until(lambda _: master.acked() == [0, 0, 0])
        master.needs(2)
        client = master.connect()
        client.put(send("t", b"a", 5))
        end = len(links[0].log(0, 1))
        links[0].report(end)
        master.until(lambda _: master.acked() == [0, 0, end])
        assert client.is_silent()
        links[2].report(end)
        assert client.reply().code == 0
        for link in links:
            link.close()


def test_without_enough_slaves_a_send_is_stored_and_says_so(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Master(tmp_path / "master", slave_timeout_ms=3_000) as master:
        master.needs(1)
        client = master.connect()
        assert client.ask(send("t", b"a")).code == SLAVE_NOT_AVAILABLE
        link = master.slave()
        master.until(lambda _: master.acked() == [0])
        client.put(send("t", b"b"))
        link.log(0, 1)  # before the end of the turn in which the send begins to wait
        master.until(lambda stats: stats["messages_in"] == 2)
        clock.advance(3.1)
        master.look_at_clock()
        assert client.reply().code == FLUSH_SLAVE_TIMEOUT
        client.put(send("t", b"c"))
        master.until(lambda stats: stats["messages_in"] == 3)
        link.close()
        assert client.reply().code == SLAVE_NOT_AVAILABLE
        assert bodies(client.ask(pull("g", "t", 0))) == [b"a", b"b", b"c"]


def test_a_slave_that_reads_nothing_costs_the_others_nothing(tmp_path: Path) -> None:
    with pair(tmp_path) as (master, slave):
        deaf = master.slave()
        end = fill(master, 9000)
        slave.follow(master)
        slave.until_has(end)
        pools = master.core.pools()
        assert pools["reply"][2] < pools["reply"][1] // 2
        deaf.close()


@pytest.mark.parametrize("wrong", ["beyond", "negative", "less"])
def test_a_report_that_cannot_be_ends_the_connection_and_counts_for_nothing(
    tmp_path: Path, wrong: str
) -> None:
    with Master(tmp_path / "master") as master:
        end = fill(master, 10)
        link = master.slave(end if wrong == "less" else 0)
        master.until(lambda _: len(master.acked()) == 1)
        link.report({"beyond": end + 1, "negative": -1, "less": end - 1}[wrong])
        assert link.is_closed()
        master.needs(1)
        assert master.connect().ask(send("t")).code == SLAVE_NOT_AVAILABLE
        ((_, said),) = master.reports(EVENT)
        assert b"closed: " in said


def test_both_say_that_they_live_and_silence_ends_the_connection(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Master(tmp_path / "master") as master, Slave(tmp_path / "slave") as slave:
        link = master.slave()
        master.until(lambda _: master.acked() == [0])
        clock.advance(5.1)
        assert link.frame() == (0, b"")
        by_hand = slave.by_hand()
        assert by_hand.reported() == 0
        clock.advance(5.1)
        assert by_hand.reported() == 0
        clock.advance(20.1)
        assert link.is_closed() and by_hand.is_closed()
        assert slave.failure() == 1


# ------------------------------------------------------------------- a slave and what it is given


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The log of a master that has more than one segment."""
    directory = tmp_path_factory.mktemp("log")
    with Master(directory / "master") as master:
        end = fill(master, 3000, 700)
        master.stop()
    assert end > SEGMENT_BYTES
    return log_of(directory / "master" / "store", end)


@pytest.mark.parametrize("whole", [False, True], ids=["from 0", "from 1"])
@pytest.mark.parametrize("seed", range(4))
def test_any_pieces_make_the_same_log(tmp_path: Path, log: bytes, seed: int, whole: bool) -> None:
    """A slave that says it has the first byte begins at 1: RocketMQ's masters send the whole log
    only to such a slave, and the first byte is always 0."""
    made, at, sent = random.Random(seed), int(whole), 0
    sizes = ((1, 5, 60), (200, 900, 3000), (32768,), (1, 9, 400, 32768, 300_000))[seed]
    with Slave(tmp_path / "slave") as slave:
        master = slave.by_hand(whole)
        assert master.reported() == at
        while at < len(log):
            # Small pieces at the beginning of the log and of its second segment; elsewhere size
            # does not matter.
            near = at < NEAR_BYTES or abs(at - SEGMENT_BYTES) < NEAR_BYTES
            size = min(made.choice(sizes) if near else 32_768, len(log) - at)
            size = min(size, SEGMENT_BYTES - at % SEGMENT_BYTES)
            stream = HEAD.pack(at, size) + log[at : at + size]
            cut = made.randrange(len(stream))
            master.socket.sendall(stream[:cut])
            sent += len(stream)
            if made.random() < 0.02:  # the core receives the two halves in different turns
                here = sent - len(stream) + cut
                slave.until(lambda stats, here=here: stats["received_bytes"] == here)
            master.socket.sendall(stream[cut:])
            at += size
        master.until_reported(len(log))
        slave.until_has(len(log))
        slave.stop()
        master.close()
    assert log_of(tmp_path / "slave" / "store", len(log)) == log


def test_a_slave_says_what_is_durable_when_it_is_to(tmp_path: Path, log: bytes) -> None:
    with Slave(tmp_path / "slave", flush_interval_ms=3_600_000) as slave:
        slave.core.set_ha(*{**HA, "ack_durable": 1}.values())
        master = slave.by_hand()
        assert master.reported() == 0
        master.send(0, log[:100_000])
        slave.until(lambda stats: stats["log_written"] > 90_000)
        written = slave.core.log_range()[1]
        slave.core.sync_log(written)
        assert master.reported() == written
        master.close()


@pytest.mark.parametrize(
    ("wrong", "failure"),
    [("count", MALFORMED), ("huge", MALFORMED), ("place", ELSEWHERE), ("bit", CORRUPT),
     ("zeros", CORRUPT), ("size", CORRUPT)],
)  # fmt: skip
def test_what_does_not_fit_ends_the_stream_and_the_log_stays_whole(
    tmp_path: Path, log: bytes, wrong: str, failure: int
) -> None:
    with Slave(tmp_path / "slave") as slave:
        master = slave.by_hand()
        master.send(0, log[:50_000])
        slave.until(lambda stats: stats["log_written"] > 40_000)
        good = {
            "count": HEAD.pack(50_000, -1),
            "huge": HEAD.pack(50_000, 2**31 - 1),
            "place": HEAD.pack(50_001, 100) + log[50_001:50_101],
            "bit": HEAD.pack(50_000, 9000) + flipped(log[50_000:59_000]),
            "zeros": HEAD.pack(50_000, 9000) + bytes(9000),
            "size": HEAD.pack(50_000, 9000) + b"\x7f" * 9000,
        }[wrong]
        master.socket.sendall(good)
        assert master.is_closed()
        assert slave.failure() == failure
        end = slave.core.log_range()[1]
        assert 40_000 < end < 59_000
        again = slave.by_hand()
        assert again.reported() == end
        again.send(end, log[end:200_000])
        slave.until(lambda stats: stats["log_written"] > 190_000)
        again.close()
        slave.stop()
    end = 190_000
    assert log_of(tmp_path / "slave" / "store", end) == log[:end]


def flipped(data: bytes) -> bytes:
    """A copy of the record with one bit of the body flipped."""
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    return bytes(changed)


def test_a_master_takes_no_log(tmp_path: Path, log: bytes) -> None:
    with Slave(tmp_path / "slave") as slave:
        master = slave.by_hand()
        master.send(0, log[:50_000])
        slave.until(lambda stats: stats["log_written"] > 40_000)
        end = slave.core.log_range()[1]
        slave.until(lambda _: slave.core.promote())
        assert slave.core.ha_client()[0] == 0, "a master whose master's log comes"
        assert slave.connect().ask(send("t")).code == 0
        with contextlib.suppress(OSError):
            master.send(50_000, log[50_000:60_000])
        while (said := master.last_report()) is not None:
            assert said <= end, "an ack of what is its own"
        assert slave.failure() == 1
        with pytest.raises(StoreError, match="no slave"):
            slave.by_hand()


# ------------------------------------------------------------------- by TLS


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Authority(tmp_path_factory.mktemp("authority")).pair("master")


def test_the_log_is_the_same_by_tls(tmp_path: Path, shown: Pair) -> None:
    comes_again(tmp_path, lambda slave, master: slave.follow_by_tls(master, shown), 4, 3000)


def test_history_comes_by_tls_while_sends_wait_for_it(tmp_path: Path, shown: Pair) -> None:
    with pair(tmp_path, ring_bytes=MIB, record_max_bytes=256 << 10) as (master, slave):
        end = fill(master, 9000)
        master.core.sync_log(end)
        drop_from_page_cache(tmp_path / "master" / "store" / "commitlog")
        slave.follow_by_tls(master, shown)
        slave.until_has(end)
        master.needs(1)
        end = fill(master, 1000, opaque=20_000)
        slave.until_has(end)
        slave.stop()
        master.stop()
    same_logs(tmp_path, end)


def test_a_core_takes_a_stream_once_and_frees_what_it_cannot_take(
    tmp_path: Path, shown: Pair
) -> None:
    with Master(tmp_path / "master") as master:
        ours = socket.create_connection(master.listener.getsockname())
        stream = TlsStream(ours.fileno(), TlsClientContext(None, False, None, None, None), False)
        with pytest.raises(StoreError, match="no slave"):
            master.core.follow_master(ours.detach(), 0, stream)
        with pytest.raises(ValueError, match="is the reactor's now"):
            stream.handshake()
        with pytest.raises(TypeError):
            master.core.adopt_slave(0, 0, object())
