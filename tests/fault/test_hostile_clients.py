"""Goal: clients that do not read, send byte by byte, leave in the middle of a request, or come in
thousands harm nobody else, and the memory that they cost is bounded.

Method: a broker process, hostile plain sockets, and beside them an ordinary producer and consumer,
whose every request must be answered in time while the broker's resident memory is watched. The
limits on time are wide, because the machine is shared. Cannot prove: what a real network loses.
"""

import asyncio
import resource
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process
from support.calm_clock import calm_seconds
from support.sanitized import SANITIZED
from support.waiting import HANG_S, until_is, wait_until, wait_until_is

from rmq.format.remoting import Command, encode, field_texts

SETTINGS = ["--set", "mappedFileSizeCommitLog=16777216"]
MIB = 1 << 20
HELD_BYTES_MAX = 64 * MIB
if SANITIZED:
    HELD_BYTES_MAX += 256 * MIB  # freed memory is kept back, to detect later uses of it
BUSY = 2
ANSWER_S = 15.0
EXCHANGES = 5  # at least so many, however busy the machine is; each has time enough
PACE_S = 0.01  # an ordinary client pauses: one that sends and pulls without a pause is a load
EVERYTHING = {"sysFlag": 4, "subscription": "*", "expressionType": "TAG"}


def resident(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def sockets(broker: BrokerProcess) -> int:
    """The number of connections. Descriptors of files are not counted, because they come and go
    with the log."""
    found = 0
    for path in Path(f"/proc/{broker.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += path.readlink().name.startswith("socket:")
    return found


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), 10)


def pull_frame(offset: int) -> bytes:
    fields = {
        "consumerGroup": "g", "topic": "served", "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subVersion": 1, "subscription": "*", "expressionType": "TAG",
    }  # fmt: skip
    return encode(Command(code=11, opaque=1, language="JAVA", fields=field_texts(fields)))


async def taken(client: BrokerClient, body: bytes) -> Command:
    """Sends until it is taken. The send is repeated if the next log file is not ready yet or a
    write stood still, which a busy machine may cause."""

    def is_taken(reply: Command) -> bool:
        remark = reply.remark or ""
        stalled = "next commit log file" in remark or remark.startswith("[TIMEOUT_CLEAN_QUEUE]")
        return reply.code != BUSY or not stalled

    return await until_is(lambda: client.send("served", body, 1), is_taken)


async def serve_others(broker: BrokerProcess, seconds: float = 1.0, size: int = 100) -> int:
    """An ordinary client sends and reads back; returns the number of messages that went both
    ways."""
    async with BrokerClient(broker.port, "ordinary@1") as client:
        first = await taken(client, b"\0" * size)
        assert first.code == 0, first.remark
        at = int(first.fields["queueOffset"])
        begin, count = time.monotonic(), 0
        while time.monotonic() - begin < seconds or count <= EXCHANGES:
            asked = calm_seconds()
            reply = await taken(client, count.to_bytes(8, "big") + bytes(size))
            assert reply.code == 0, reply.remark
            count += 1
            found = await client.pulled("g", "served", queue=1, offset=at + count, **EVERYTHING)
            assert [message.body[:8] for message in found] == [(count - 1).to_bytes(8, "big")]
            assert calm_seconds() - asked < ANSWER_S
            await asyncio.sleep(PACE_S)
        return count


def closed_by_broker(clients: list[socket.socket]) -> int:
    """How many of the clients are closed, once all but one are."""
    end, closed = time.monotonic() + HANG_S, 0
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        while closed < len(clients) - 1 and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                assert key.fileobj.recv(1) == b""  # type: ignore[union-attr]
                selector.unregister(key.fileobj)
                closed += 1
    return closed


def others_are_served(broker: BrokerProcess, size: int = 100) -> None:
    assert asyncio.run(serve_others(broker, size=size)) > EXCHANGES


async def fill(broker: BrokerProcess, count: int, size: int) -> None:
    async with BrokerClient(broker.port) as client:
        await client.send("served", bytes(size), 0)
        for opaque in [client.post_send("served", bytes(size), 0) for _ in range(count)]:
            reply = await client.reply(opaque)
            while reply.code == BUSY:  # a busy machine may stall in a write
                reply = await client.send("served", bytes(size), 0)
            assert reply.code == 0, reply.remark


@contextmanager
def many_descriptors(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < count:
        pytest.skip(f"only {before[1]} descriptors a process")
    if before[0] != resource.RLIM_INFINITY:  # descriptors that other tests left open count, too
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(count, before[0]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_clients_that_never_read_cost_bounded_memory_and_no_one_else(tmp_path: Path) -> None:
    with broker_process(tmp_path, SETTINGS) as broker, ExitStack() as stack:
        asyncio.run(fill(broker, 256, 8000))
        others_are_served(broker)
        before = resident(broker)
        # Each client asks for 32 MiB again and again, and never takes a byte of it.
        wanted = b"".join(pull_frame(offset % 200) for offset in range(400))
        greedy = [stack.enter_context(connect(broker)) for _ in range(40)]
        for client in greedy:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            client.send(wanted)
        others_are_served(broker)
        # Each client may have 1 MiB of replies (PULL_UNSENT_MAX of cext/flow/context/unsent.pxd),
        # one more reply of 256 KiB, and the pulls that wait behind them.
        at_rest = resident(broker)
        assert at_rest - before < 40 * 3 * MIB
        for client in greedy:  # these requests are not even read
            with suppress(BlockingIOError):
                client.send(wanted)
        others_are_served(broker)
        assert resident(broker) - at_rest < 8 * MIB


def test_headers_that_trickle_in_hold_up_nobody(tmp_path: Path) -> None:
    with broker_process(tmp_path, SETTINGS) as broker, ExitStack() as stack:
        others_are_served(broker)
        before = resident(broker)
        frame = pull_frame(0)
        slow = [stack.enter_context(connect(broker)) for _ in range(300)]
        for byte in frame[:12]:
            for client in slow:
                client.send(bytes([byte]))
            time.sleep(0.02)
        others_are_served(broker)
        assert resident(broker) - before < HELD_BYTES_MAX
        for client in slow[:20]:  # a client that ends its request is answered
            client.sendall(frame[12:])
            assert int.from_bytes(client.recv(4), "big") > 0


def test_large_requests_that_never_end_hold_up_no_ordinary_ones(tmp_path: Path) -> None:
    with broker_process(tmp_path, SETTINGS) as broker, ExitStack() as stack:
        others_are_served(broker, size=200_000)
        before = resident(broker)
        head = (8 * MIB).to_bytes(4, "big") + pull_frame(0)[4:20]
        slow = [stack.enter_context(connect(broker)) for _ in range(200)]
        for client in slow:
            client.sendall(head + bytes(100))
        others_are_served(broker)  # the turns that serve them have read from all of the clients
        assert resident(broker) - before < HELD_BYTES_MAX


def test_half_closed_sockets_are_answered_or_closed_and_leave_nothing(tmp_path: Path) -> None:
    with broker_process(tmp_path, SETTINGS) as broker:
        asyncio.run(fill(broker, 4, 100))
        others_are_served(broker)
        before = sockets(broker)
        for number in range(200):
            with connect(broker) as client:
                if number % 2:
                    client.sendall(pull_frame(0)[: number % 50])
                client.shutdown(socket.SHUT_WR)
                client.settimeout(HANG_S)
                assert client.recv(1) == b"", "the end of what a client says ends its connection"
        others_are_served(broker)
        wait_until_is(lambda: sockets(broker), lambda found: found <= before)


def connections_up_to_the_limit(directory: Path, limit: int) -> None:
    options = [*SETTINGS, "--set", f"rmqMaxConnections={limit}"]
    options += ["--set", f"rmqMaxConnectionsPerAddress={limit}"]  # all clients have one address
    with many_descriptors(limit + 500), broker_process(directory, options) as broker:
        others_are_served(broker)
        before = resident(broker)
        with ExitStack() as stack:
            for _ in range(limit - 1):  # a connection that has asked for something keeps its place
                stack.enter_context(connect(broker)).sendall(pull_frame(0))
            others_are_served(broker)  # this client takes the last place
            crowd = [stack.enter_context(connect(broker)) for _ in range(20)]
            # Which client of the crowd gets the place of the ordinary client depends on the order
            # of events.
            assert closed_by_broker(crowd) >= len(crowd) - 1
            assert resident(broker) - before < HELD_BYTES_MAX + limit * 4096
        wait_until(lambda: are_served(broker))  # all have gone, so there is room again


def are_served(broker: BrokerProcess) -> bool:
    try:
        others_are_served(broker)
    except (OSError, AssertionError):
        return False
    return True


def test_beyond_the_limit_connections_are_closed_and_the_others_served(tmp_path: Path) -> None:
    connections_up_to_the_limit(tmp_path, 1500)


@pytest.mark.slow
def test_sixteen_thousand_connections_are_held_and_no_more(tmp_path: Path) -> None:
    connections_up_to_the_limit(tmp_path, 16384)
