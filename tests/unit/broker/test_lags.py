"""How far groups are behind: counts from tables, ages from records, and the limits of both."""

import threading
from collections.abc import Callable

import pytest
from support.waiting import HANG_S, wait_until

from rmq.broker.status import consumer_lag as module
from rmq.broker.status.consumer_lag import CoreTopics, LagTimes, lags

NOW = 10_000
TABLE: CoreTopics = {b"t": (0, 0, 0, 0, [(0, 100), (10, 20), None])}


class Queues:
    """A queue whose messages were stored a millisecond after one another."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.on_ask: Callable[[], None] = lambda: None

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        self.asked.append((topic, queue_id, offset))
        self.on_ask()
        return -1 if queue_id == 1 and offset == 13 else 1000 + offset


def test_what_is_handed_out_stands_between_committed_and_the_end() -> None:
    (row,) = lags(TABLE, {b"t@g": {0: 90, 1: 20}}, {b"t@g": {0: 95, 1: -1}})
    assert (row.sample.group, row.sample.topic) == ("g", "t")
    assert (row.sample.messages, row.sample.inflight, row.sample.ready) == (10, 5, 5)
    assert (row.unconsumed, row.unpulled) == ([("t", 0, 90)], [("t", 0, 95)])


def test_what_is_committed_is_added_up() -> None:
    (row,) = lags(TABLE, {b"t@g": {0: 90, 1: 20, 2: 7, 5: 8}}, {})
    assert row.sample.committed == 110, "of queues that are there"


def test_what_was_never_pulled_since_the_start_is_ready() -> None:
    (row,) = lags(TABLE, {b"t@g": {0: 90}}, {})
    assert (row.sample.messages, row.sample.inflight, row.sample.ready) == (10, 0, 10)


def test_offsets_outside_of_the_queue_count_from_its_ends() -> None:
    (row,) = lags(TABLE, {b"t@g": {0: 999, 1: 3, 2: 5, 7: 5}}, {b"t@g": {0: 5, 1: 999}})
    assert (row.sample.messages, row.sample.inflight, row.sample.ready) == (10, 10, 0)
    assert (row.unconsumed, row.unpulled) == ([("t", 1, 10)], [])


RETRIES: CoreTopics = TABLE | {
    b"%RETRY%g": (0, 0, 0, 0, [(3, 7), (0, 5), (2, 2), None], []),
    b"%RETRY%g_t": (0, 0, 0, 0, [(0, 4)], []),
    b"%RETRY%g+t": (0, 0, 0, 0, [(0, 2)], []),
    b"%RETRY%h_t": (0, 0, 0, 0, [(0, 9)], []),
    b"%RETRY%idle": (0, 0, 0, 0, [(6, 6)], []),
    b"%RETRY%gone": (0, 0, 0, 0, [(0, 6)], []),
}


@pytest.mark.parametrize(
    ("committed", "of_g"),
    [({}, 9), ({b"%RETRY%g@g": {1: 4}}, 5), ({b"%RETRY%g@g": {0: 7, 1: 4}}, 1)],
)
def test_retries_are_behind_before_anything_is_committed(
    committed: dict[bytes, dict[int, int]], of_g: int
) -> None:
    """A member will read there from the first message on; until then nobody else says that they
    lie there."""
    rows = lags(RETRIES, committed, {}, {b"g", b"h_t", b"h", b"idle"})
    assert [(row.sample.topic, row.sample.group, row.sample.messages) for row in rows] == [
        ("%RETRY%g+t", "g", 2), ("%RETRY%g", "g", of_g), ("%RETRY%g_t", "g", 4),
        ("%RETRY%h_t", "h_t", 9),
    ]  # fmt: skip
    row = rows[1].sample
    assert (row.committed, row.ready) == (sum(committed.get(b"%RETRY%g@g", {}).values()), of_g)


def test_topics_that_are_gone_are_left_out() -> None:
    assert lags(TABLE, {b"gone@g": {0: 1}}, {}) == []


def test_ages_are_those_of_the_oldest() -> None:
    rows = lags(TABLE, {b"t@g": {0: 90, 1: 15}, b"t@h": {0: 100}}, {b"t@g": {0: 95}})
    LagTimes(Queues()).fill(rows, NOW)  # type: ignore[arg-type]
    assert [(row.sample.latency_ms, row.sample.queueing_ms) for row in rows] == [
        (NOW - 1015, NOW - 1015), (0, 0),
    ]  # fmt: skip


def test_a_record_that_cannot_be_read_has_no_age() -> None:
    (row,) = lags(TABLE, {b"t@g": {1: 13}}, {})
    LagTimes(Queues()).fill([row], NOW)  # type: ignore[arg-type]
    assert row.sample.latency_ms == -1


def test_what_was_looked_at_is_remembered_until_it_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues = Queues()
    times = LagTimes(queues)  # type: ignore[arg-type]
    for _ in range(3):
        times.fill(lags(TABLE, {b"t@g": {0: 90}}, {}), NOW)
    assert queues.asked == [("t", 0, 90)]
    times.fill(lags(TABLE, {b"t@g": {0: 91}}, {}), NOW)
    times.fill(lags(TABLE, {b"t@g": {0: 90}}, {}), NOW)
    assert queues.asked[1:] == [("t", 0, 91), ("t", 0, 90)]


def test_a_stop_waits_for_the_look_under_way_and_there_is_no_other() -> None:
    """stop() must wait for a look that is under way, and no look may begin after it: the core ends
    then, and a call of it would wait for ever."""
    queues = Queues()
    times = LagTimes(queues)  # type: ignore[arg-type]
    entered, leave, done = threading.Event(), threading.Event(), threading.Event()

    def look() -> None:
        entered.set()
        leave.wait(HANG_S)

    queues.on_ask = look
    rows = lags(TABLE, {b"t@g": {0: 90}, b"t@h": {0: 91}}, {})
    filler = threading.Thread(target=times.fill, args=(rows, NOW))
    filler.start()
    assert entered.wait(HANG_S)
    stopper = threading.Thread(target=lambda: (times.stop(), done.set()))
    stopper.start()
    wait_until(lambda: times._stopped)
    assert not done.wait(0.1)
    leave.set()
    stopper.join(60)
    filler.join(60)
    assert done.is_set()
    times.fill(rows, NOW)
    assert queues.asked == [("t", 0, 90)]


def test_no_more_is_looked_at_than_time_and_number_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = {b"t@g%02d" % n: {0: n} for n in range(50)}
    monkeypatch.setattr(module, "TIMES_MAX", 7)
    rows = lags(TABLE, committed, {})
    assert LagTimes(Queues()).fill(rows, NOW) == 43  # type: ignore[arg-type]
    assert [row.sample.latency_ms for row in rows] == [NOW - 1000 - n for n in range(7)] + [-1] * 43
    monkeypatch.setattr(module, "TIMES_S", -1.0)
    queues = Queues()
    LagTimes(queues).fill(lags(TABLE, committed, {}), NOW)  # type: ignore[arg-type]
    assert queues.asked == []


def test_who_moves_keeps_no_age_from_those_behind_him(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that commit all the time must not keep those behind them from having an age: the first
    ten commit between any two rounds, and are alone more than a round looks at."""
    monkeypatch.setattr(module, "TIMES_MAX", 7)
    times = LagTimes(Queues())  # type: ignore[arg-type]
    for number in range(20):
        moved = {b"t@g%02d" % n: {0: 50 + 10 * (number % 5) + n} for n in range(10)}
        rows = lags(TABLE, moved | {b"t@g%02d" % n: {0: n} for n in range(10, 50)}, {})
        without_age = times.fill(rows, NOW)
    ages = [row.sample.latency_ms for row in rows]
    assert ages[10:] == [NOW - 1000 - n for n in range(10, 50)]
    assert without_age == ages.count(-1) <= 3


def test_a_row_of_more_queues_than_a_round_looks_at_keeps_none_from_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMES_MAX", 7)
    table: CoreTopics = {b"t": (0, 0, 0, 0, [(0, 100)] * 20), b"u": (0, 0, 0, 0, [(0, 100)])}
    times = LagTimes(Queues())  # type: ignore[arg-type]
    for number in range(3):
        rows = lags(table, {b"t@g": dict.fromkeys(range(20), number), b"u@g": {0: 9}}, {})
        times.fill(rows, NOW)
    assert [row.sample.latency_ms for row in rows] == [-1, NOW - 1009]
