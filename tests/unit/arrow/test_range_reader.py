"""What a range's reader does with answers that bring no messages: for some it waits, others mean
the end, damage, or that another broker must be asked."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.scripted_peer import ScriptedPeer
from support.stored_records import record

pa = pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[arrow]")

from rmq.arrow import range_reader  # noqa: E402
from rmq.arrow.access import Access  # noqa: E402
from rmq.arrow.offsets import QueueKey  # noqa: E402
from rmq.arrow.options import read_options  # noqa: E402
from rmq.arrow.queue_ranges import QueueRange  # noqa: E402
from rmq.arrow.queues import DataLossError  # noqa: E402
from rmq.arrow.range_reader import read_ranges  # noqa: E402
from rmq.arrow.read_plan import DamagedMessageError, ReadPlan  # noqa: E402
from rmq.codes import RequestCode, ResponseCode  # noqa: E402
from rmq.errors import UnreachableError  # noqa: E402
from rmq.format import fastjson  # noqa: E402
from rmq.format.remoting import Command  # noqa: E402

SCHEMA = pa.schema([("queueOffset", pa.int64()), ("_corrupt", pa.string())])
DAMAGED = "the record at commit log offset 7 (topic t queue 0 offset 1) is damaged on disk"
UNREADABLE = "the consume queue of topic t queue 0 cannot be read at offset 1"
Answer = Callable[[Command], Command]


class Clock:
    """Stands for the module `time` in the reader: a sleep ends at once, and the time has passed."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def move(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    clock = SimpleNamespace(monotonic=made.monotonic, sleep=made.move)
    monkeypatch.setattr(range_reader, "time", clock)
    return made


def offset_of(request: Command) -> int:
    return int(request.fields["queueOffset"])


def found(request: Command, count: int, last: int = 5) -> Command:
    at = offset_of(request)
    body = b"".join(record(each) for each in range(at, at + count))
    return request.reply(0, "FOUND", numbers(at + count, last=last), body)


def nothing(request: Command, code: int, first: int = 0, last: int = 5) -> Command:
    return request.reply(code, "nothing", numbers(offset_of(request), first, last))


def numbers(following: int, first: int = 0, last: int = 5) -> dict[str, int]:
    return {"nextBeginOffset": following, "minOffset": first, "maxOffset": last,
            "suggestWhichBrokerId": 0}  # fmt: skip


def rows_of(
    answer: Answer, broker_id: int | None = 0, master: Answer | None = None, **options: str
) -> list[dict[str, Any]]:
    """Reads five messages of a queue whose broker gives this answer, or `master` as its master, if
    it is a slave with one. broker_id None: no name server knows the broker, so a reader that leaves
    it finds none."""

    def brokers(request: Command) -> Command:
        addresses = {} if broker_id is None else {str(broker_id): peer.address}
        if master is not None:
            addresses["0"] = other.address
        entry = {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": addresses}
        return request.reply(body=fastjson.dumps({"brokerAddrTable": {"broker-a": entry}}))

    with (
        ScriptedPeer({RequestCode.PULL_MESSAGE: answer}) as peer,
        ScriptedPeer({RequestCode.PULL_MESSAGE: master or answer}) as other,
        ScriptedPeer({RequestCode.GET_BROKER_CLUSTER_INFO: brokers}) as names,
    ):
        given = {"nameserver": names.address, "topic": "t", **options}
        read = read_options(given, streaming=False)
        plan = ReadPlan(read, Access.of(read), ("QUEUE_OFFSET", "CORRUPT"), SCHEMA, tags=())
        piece = QueueRange(QueueKey("t", "broker-a", 0), 0, 5, 0)
        batches = list(read_ranges(plan, [piece], {"broker-a": peer.address}))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED]
)
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_queue_that_is_mended_is_waited_for(clock: Clock, code: int, fail: str) -> None:
    """A queue that is being repaired must be waited for, longer than the reader needs to believe
    that a queue has ended."""
    mended_s = 20 * range_reader.END_PATIENCE

    def answer(request: Command) -> Command:
        if offset_of(request) < 2 or clock.now_s > mended_s:
            return found(request, 2 if offset_of(request) < 2 else 3)
        return nothing(request, code)

    rows = rows_of(answer, None, failOnDataLoss=fail)
    assert [row["queueOffset"] for row in rows] == [0, 1, 2, 3, 4]
    assert mended_s < clock.now_s < 2 * mended_s


def test_a_queue_that_is_never_mended_is_given_up_in_time(clock: Clock) -> None:
    with pytest.raises(UnreachableError, match=r"still being mended; given up .*=600000$"):
        rows_of(
            lambda request: nothing(request, ResponseCode.PULL_RETRY_IMMEDIATELY), None,
            pollTimeoutMs="600000", failOnDataLoss="false",
        )  # fmt: skip
    assert 600 < clock.now_s < 700


def test_a_queue_that_ends_before_its_range_is_a_loss(clock: Clock) -> None:
    def answer(request: Command) -> Command:
        if offset_of(request) < 2:
            return found(request, 2, last=2)
        return nothing(request, ResponseCode.PULL_NOT_FOUND, last=2)

    with pytest.raises(DataLossError, match="messages 2 to 4 are gone"):
        rows_of(answer)
    assert [row["queueOffset"] for row in rows_of(answer, failOnDataLoss="false")] == [0, 1]


def test_a_slave_that_lacks_the_beginning_of_a_queue_mends_nothing(clock: Clock) -> None:
    """A slave that lacks the beginning of a queue repairs nothing, so the reader must look for its
    master, which has what lies before."""
    with pytest.raises(UnreachableError, match="the slave does not have all of the queue"):
        rows_of(lambda request: nothing(request, ResponseCode.PULL_RETRY_IMMEDIATELY, first=3), 1)


def unreadable(request: Command) -> Command:
    """The answer of a broker that could not repair the queue's entry of message 1."""
    at = offset_of(request)
    if at == 1:
        return request.reply(ResponseCode.SYSTEM_ERROR, UNREADABLE)
    return found(request, 1 if at == 0 else 5 - at)


def test_a_message_whose_entry_cannot_be_read_is_a_damaged_one() -> None:
    with pytest.raises(DamagedMessageError, match="cannot be read at offset 1; mode=permissive"):
        rows_of(unreadable)
    rows = rows_of(unreadable, mode="permissive")
    assert [row["queueOffset"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["_corrupt"] for row in rows] == [None, UNREADABLE, None, None, None]
    rows = rows_of(unreadable, mode="dropmalformed")
    assert [row["queueOffset"] for row in rows] == [0, 2, 3, 4]


@pytest.mark.parametrize(
    "code, remark",
    [
        (ResponseCode.SYSTEM_ERROR, UNREADABLE),
        (ResponseCode.SYSTEM_ERROR, DAMAGED),
        (ResponseCode.SYSTEM_BUSY, "[OVERLOAD]offset 1 could not be made anew"),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, "QUEUE_IS_MENDED"),
        (ResponseCode.PULL_NOT_FOUND, "OFFSET_FOUND_NULL"),
    ],
)
def test_what_a_slave_cannot_give_its_master_is_asked_for(
    clock: Clock, code: int, remark: str
) -> None:
    def slave(request: Command) -> Command:
        if offset_of(request) == 0:
            return found(request, 1)
        return request.reply(code, remark, numbers(3 if code == 19 else 1))

    rows = rows_of(slave, 1, lambda request: found(request, 5 - offset_of(request)),
                   mode="dropmalformed", failOnDataLoss="false")  # fmt: skip
    assert [row["queueOffset"] for row in rows] == [0, 1, 2, 3, 4]
    assert clock.now_s < range_reader.END_PATIENCE


@pytest.mark.parametrize("following, remark", [(3, "nothing"), (5, "OFFSET_FOUND_NULL")])
def test_a_hole_in_a_queue_is_a_loss(clock: Clock, following: int, remark: str) -> None:
    """A hole in a queue must be reported as a loss. The answers are those of Apache's brokers when
    a file of a consume queue is lost."""

    def answer(request: Command) -> Command:
        at = offset_of(request)
        if at in (1, 2):
            return request.reply(ResponseCode.PULL_NOT_FOUND, remark, numbers(following))
        return found(request, 1 if at == 0 else 5 - at)

    with pytest.raises(DataLossError, match=f"messages 1 to {following - 1} are gone"):
        rows_of(answer)
    rows = rows_of(answer, failOnDataLoss="false")
    assert [row["queueOffset"] for row in rows] == [0, *range(following, 5)]
    assert clock.now_s == 0


def test_a_queue_of_which_no_more_passes_the_filter_is_at_its_end(clock: Clock) -> None:
    def answer(request: Command) -> Command:
        if offset_of(request) == 0:
            return found(request, 1)
        return request.reply(ResponseCode.PULL_NOT_FOUND, "NO_NEW_MESSAGE", numbers(5))

    assert [row["queueOffset"] for row in rows_of(answer)] == [0]
    assert clock.now_s == 0
