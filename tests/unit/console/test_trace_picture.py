"""The time line of a message: lanes, bars and texts of what clients traced, whatever they wrote.

Not shown here: how it looks in a browser.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("starlette", reason="rmq[console] is not installed")

from rmq.client.blocking.trace import Traced
from rmq.console.trace_picture import (
    BAR_MIN,
    BARS_MAX,
    LANES_MAX,
    NAME_MAX,
    TICK_GAP,
    WIDTH,
    TracePicture,
    wait_text,
)
from rmq.format.trace import TraceRecord

START_MS = 1_763_726_400_000


def traced(kind: str, after_ms: int, **members: Any) -> Traced:
    at = START_MS + after_ms
    return Traced(TraceRecord(kind=kind, message_id="M", time_ms=at, **members), "10.0.0.1", at)


def sent(after_ms: int = 0, **members: Any) -> Traced:
    given = {"group": "PG", "cost_ms": 3, "success": True, **members}
    return traced("Pub", after_ms, **given)


def consumed(group: str, after_ms: int, **members: Any) -> Traced:
    given = {"cost_ms": 12, "success": True, "retries": 0, **members}
    return traced("SubAfter", after_ms, group=group, **given)


def drawn(*traces: Traced, stored_after_ms: int = 2) -> TracePicture:
    return TracePicture(traces, "broker-a", START_MS + stored_after_ms)


def bars(picture: TracePicture) -> dict[str, list[tuple[str, str]]]:
    return {lane.name: [(bar.kind, bar.label) for bar in lane.bars] for lane in picture.lanes}


def test_who_sent_it_where_it_is_stored_and_each_group_have_a_lane() -> None:
    picture = drawn(
        sent(),
        consumed("CG", 5, success=False, code="failed"),
        consumed("CG", 10_017, success=False, code="time out", retries=1),
        consumed("CG", 40_017, retries=2),
        traced("SubBefore", 6, group="other", retries=0),
    )
    assert bars(picture) == {
        "PG sends": [("sent", "")],
        "stored on broker-a": [("stored", "")],
        "CG consumes": [("failed", "✕"), ("failed", "1✕"), ("consumed", "2")],
        "other consumes": [("open", "")],
    }
    assert picture.words.split("; ") == [
        "PG sends: sent, after 0 ms, took 3 ms",
        "stored on broker-a: stored, after 2 ms",
        "CG consumes: not consumed, failed, after 5 ms, took 12 ms",
        "other consumes: began, no end is known, after 6 ms",
        "CG consumes: not consumed, time out, after 10.0 s, took 12 ms, retry 1",
        "CG consumes: consumed, after 40.0 s, took 12 ms, retry 2",
    ]
    assert picture.left_out == 0


def test_bars_are_in_the_order_of_time_inside_the_picture_and_can_all_be_seen() -> None:
    picture = drawn(sent(), *(consumed("CG", 10**n, retries=n) for n in range(10)))
    (lane,) = picture.lanes[2:]
    places = [bar.x for bar in lane.bars]
    assert places == sorted(set(places))
    assert all(bar.width >= BAR_MIN and 0 <= bar.x <= WIDTH for bar in lane.bars)
    assert max(bar.x + bar.width for bar in lane.bars) == pytest.approx(WIDTH, abs=0.5)
    waits = [after - before for before, after in pairwise(places)]
    assert waits[-1] > waits[0]  # the longer the wait, the wider the gap
    ticks = picture.ticks
    assert ticks[0].text == "0 ms"
    assert all(after.x - before.x >= TICK_GAP
               for before, after in pairwise(ticks))  # fmt: skip
    lower = [lane.y for lane in picture.lanes]
    assert lower == sorted(set(lower)) and lower[-1] < picture.height


def test_clocks_that_differ_do_not_change_who_stands_above() -> None:
    picture = drawn(sent(50), consumed("CG", 1), stored_after_ms=20)
    assert [lane.name for lane in picture.lanes] == [
        "PG sends", "stored on broker-a", "CG consumes"
    ]  # fmt: skip
    assert picture.begin_ms == START_MS + 1


def test_an_end_without_a_beginning_was_written_at_the_end() -> None:
    picture = drawn(sent(), traced("SubAfter", 112, group="CG", cost_ms=100, success=True))
    assert "CG consumes: consumed, after 12 ms, took 100 ms" in picture.words
    # As clients 4.x write it.
    old = TraceRecord(kind="SubAfter", message_id="M", cost_ms=100, success=True)
    picture = drawn(sent(), Traced(old, "10.0.0.1", START_MS + 112))
    assert "somebody consumes: consumed, after 12 ms, took 100 ms" in picture.words


def test_transactions_and_recalls_belong_to_who_sends() -> None:
    picture = drawn(
        sent(),
        traced("EndTransaction", 30, group="PG", transaction_state="COMMIT_MESSAGE"),
        traced("Recall", 40, group="PG", success=False),
    )
    assert bars(picture)["PG sends"] == [("sent", ""), ("sent", ""), ("failed", "✕")]
    assert "transaction ended, COMMIT_MESSAGE" in picture.words
    assert "PG sends: not recalled" in picture.words


def test_a_lone_moment_and_the_same_moment_twice_are_drawn() -> None:
    for each in (drawn(sent(cost_ms=0), stored_after_ms=0), drawn(sent(), sent())):
        assert all(bar.width >= BAR_MIN for lane in each.lanes for bar in lane.bars)
        assert len(each.ticks) >= 1


def test_what_strangers_write_is_bounded() -> None:
    huge = 10**4000
    picture = drawn(
        sent(cost_ms=huge),
        traced("SubAfter", huge, group="g" * 10_000, cost_ms=huge, retries=huge, success=False,
               code="c" * 10_000),
    )  # fmt: skip
    assert len(picture.words) < 2000
    (lane,) = picture.lanes[2:]
    assert len(lane.short_name) == NAME_MAX
    assert all(0 <= bar.x <= WIDTH and len(bar.label) < 8
               for each in picture.lanes for bar in each.bars)  # fmt: skip
    many = drawn(sent(), *(consumed(f"g{n}", n) for n in range(2 * BARS_MAX)))
    assert len(many.lanes) == LANES_MAX
    assert many.left_out == 2 * BARS_MAX + 2 - sum(len(lane.bars) for lane in many.lanes)
    assert many.words.endswith(f"; and {many.left_out} more events")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1500, "1.5 s"), (60_000, "1m 0s"), (11_040_000, "3h 4m")],
)
def test_waits_are_read_at_a_glance(ms: int, text: str) -> None:
    assert wait_text(ms) == text
