"""What a broker still has for consumers: which groups count, and which are only mentioned."""

from __future__ import annotations

from rmq.scaling.unconsumed import Member, Unconsumed, count, retry_owner


def counted(
    spans: dict[str, dict[int, tuple[int, int]]],
    offsets: dict[str, dict[str, dict[int, int]]] | None = None,
    members: dict[str, Member] | None = None,
    groups: set[str] | None = None,
) -> Unconsumed:
    return count(spans, offsets or {}, members or {}, groups or {"g", "h"}, {})


def online(*topics: str, broadcasts: bool = False) -> Member:
    return Member(frozenset(topics), broadcasts)


T = {"t": {0: (10, 30), 1: (0, 5)}}


def test_the_lag_is_what_is_still_there_above_the_offset() -> None:
    left = counted(T, {"t": {"g": {0: 25, 1: 5}, "h": {0: 3}}})
    assert left.by_group == {("t", "g"): 5, ("t", "h"): 25}
    assert (left.waited_for, left.ends, left.unread) == (30, 35, {})
    assert left.text() == "h 25 of t, g 5 of t"
    assert counted(T, {"t": {"g": {0: 40, 1: 5}}}).waited_for == 0


def test_a_member_that_has_committed_nothing_yet_is_waited_for() -> None:
    assert counted(T, members={"g": online("t")}).by_group == {("t", "g"): 25}


def test_a_topic_that_a_group_has_left_is_not_its_business_while_it_is_online() -> None:
    offsets = {"t": {"g": {0: 25, 1: 5}}}
    left = counted(T, offsets, {"g": online("u")})
    assert (left.by_group, left.unread) == ({}, {"t": 25})
    assert counted(T, offsets).by_group == {("t", "g"): 5}


def test_groups_that_broadcast_are_not_waited_for() -> None:
    left = counted(T, {"t": {"g": {0: 25}}}, {"g": online("t", broadcasts=True)})
    assert (left.waited_for, left.unread, left.broadcast) == (0, {}, {"t"})


def test_deleted_groups_and_those_of_the_system_do_not_count() -> None:
    offsets = {"t": {"gone": {0: 1}, "CID_RMQ_SYS_TRANS": {0: 1}}}
    left = counted(T, offsets, groups={"CID_RMQ_SYS_TRANS"})
    assert (left.by_group, left.unread) == ({}, {"t": 25})


def test_retries_are_their_groups_whatever_it_subscribes() -> None:
    spans = {"%RETRY%g": {0: (0, 2)}, "%RETRY%g_t": {0: (0, 3)}, "%DLQ%g": {0: (0, 4)}}
    left = counted(spans, {"%RETRY%g": {"g": {0: 1}}}, {"g": online("t")})
    assert left.by_group == {("%RETRY%g", "g"): 1, ("%RETRY%g_t", "g"): 3}
    assert left.unread == {"%DLQ%g": 4}
    assert retry_owner("%RETRY%a_b_t", {"a", "a_b"}) == "a_b"
    assert retry_owner("%RETRY%a+t", {"a"}) == "a"
    assert retry_owner("%RETRY%x", {"a"}) is None
    assert retry_owner("t", {"t"}) is None


def test_what_is_on_its_way_counts_and_what_is_not_said_is_named() -> None:
    left = Unconsumed({("t", "g"): 1}, {"delayed": 2, "timed": 0, "open transactions": None})
    assert (left.waited_for, left.unknown) == (3, ["open transactions"])
    assert left.without(["g"]).text() == "delayed 2"
    many = Unconsumed({(f"t{each}", "g"): each for each in range(1, 8)})
    assert many.text() == "g 7 of t7, g 6 of t6, g 5 of t5, g 4 of t4, 3 more"
    assert Unconsumed().text() == "nothing"
