"""Goal: SYNC_FLUSH keeps its promise and its timeout, whichever thread of the broker syncs.

Method: a broker process behind the fault shim. On a quick disk the reactor syncs by itself, on a
slow one the flusher does. The shim makes the disk slow, well again, and broken.
Cannot prove: what a real disk does after a power cut.
"""

import errno
from contextlib import ExitStack

import pytest
from support.broker_process import broker_process
from support.waiting import wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.format import remoting
from rmq.load.frames import Queue, SendShape, send_frames

OPTIONS = ["--flush", "sync", "--set", "mappedFileSizeCommitLog=4194304",
           "--set", "syncFlushTimeout=60000"]  # fmt: skip
TOPIC = "synced"


class Sender:
    """Sends one message at a time to one queue."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        frame = send_frames([Queue(TOPIC, 0)], SendShape()).render_one(0, 10_000_000, 1)
        self.request = remoting.decode(frame[4:])

    def submit(self) -> None:
        self.connection.submit(
            RequestCode.SEND_MESSAGE_V2, self.request.fields, self.request.body
        )  # fmt: skip

    def code(self) -> int:
        """Sends a message; returns the code of the answer."""
        self.submit()
        reply = self.connection.receive(60)
        assert reply is not None
        return reply.code


@pytest.fixture
def broker(tmp_path, faults):
    with broker_process(tmp_path, OPTIONS, faults.environment()) as broker:
        yield broker


@pytest.fixture
def served(broker):
    """A sender and another connection of a broker that has the topic."""
    with ExitStack() as stack:
        sender = Sender(stack.enter_context(Connection(broker.address)))
        assert sender.code() == ResponseCode.SUCCESS
        yield sender, stack.enter_context(Connection(broker.address))


def max_offset(connection: Connection) -> int:
    reply = connection.call(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0})
    return int(reply.fields["offset"])


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_is_never_acknowledged_nor_repeated(broker, served, faults, error) -> None:
    sender, _ = served
    for _ in range(20):
        assert sender.code() == ResponseCode.SUCCESS
    faults.fail("fdatasync", error, path="/commitlog/", count=1)
    assert sender.code() == ResponseCode.SERVICE_NOT_AVAILABLE
    assert faults.hits(0) == 1
    assert sender.code() == ResponseCode.SERVICE_NOT_AVAILABLE
    broker.stop()
    assert faults.seen(0) == 1, "nor at the end"


def test_each_ack_of_one_producer_follows_a_sync_of_its_own(served, faults) -> None:
    sender, _ = served
    faults.sleep("fdatasync", 0, path="/commitlog/")
    for number in range(1, 101):
        assert sender.code() == ResponseCode.SUCCESS
        assert faults.seen(0) == number


def hold_syncs(sender, faults) -> None:
    """From now on no sync ends. A slow one comes first, so that the flusher does the others."""
    faults.clear()
    faults.sleep("fdatasync", 100_000, path="/commitlog/", count=1)
    assert sender.code() == ResponseCode.SUCCESS
    faults.clear()
    faults.hold("fdatasync", path="/commitlog/")


def test_a_slow_disk_delays_only_those_who_wait_for_it(served, faults) -> None:
    sender, other = served
    for _ in range(3):
        hold_syncs(sender, faults)
        before = max_offset(other)
        sender.submit()
        wait_until(lambda: faults.seen(0) == 1)
        wait_until(lambda end=before + 1: max_offset(other) == end)
        assert sender.connection.receive(0.1) is None
        faults.clear()
        reply = sender.connection.receive(60)
        assert reply is not None and reply.code == ResponseCode.SUCCESS


def test_what_comes_while_a_sync_is_under_way_waits_for_the_next_one(served, faults) -> None:
    sender, other = served
    late = Sender(other)
    for _ in range(2):
        hold_syncs(sender, faults)
        before = max_offset(other)
        sender.submit()
        wait_until(lambda: faults.seen(0) == 1)
        late.submit()
        wait_until(lambda end=before + 2: max_offset(other) == end)
        faults.let_go()  # lets the sync that was under way end
        reply = sender.connection.receive(60)
        assert reply is not None and reply.code == ResponseCode.SUCCESS
        wait_until(lambda: faults.seen(0) == 1)
        assert other.receive(0.1) is None
        faults.clear()
        reply = other.receive(60)
        assert reply is not None and reply.code == ResponseCode.SUCCESS


def test_sends_over_a_disk_that_is_slow_and_well_again_are_all_acknowledged(served, faults) -> None:
    sender, other = served
    before = max_offset(other)
    for _ in range(3):
        faults.sleep("fdatasync", 20_000, path="/commitlog/")
        for _ in range(10):
            assert sender.code() == ResponseCode.SUCCESS
        faults.clear()
        for _ in range(60):
            assert sender.code() == ResponseCode.SUCCESS
    assert max_offset(other) == before + 3 * 70
