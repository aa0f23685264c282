"""How the master watches which replicas are in sync: what it tells the core, and what it asks the
controller.

Goal: the core waits for every replica that the controller may take for a member; a replica that
joins has everything that was answered without it; and no set that is too small for answers takes
the place of a larger one. The controller here answers as it is told, and the core only notes what
it was told.
"""

from __future__ import annotations

from random import Random

import pytest
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.sync_harness import ONE, THREE, Harness, in_sync

from rmq.broker.replication.retry_backoff import PAUSE_DIVISOR, PAUSE_MS_MAX
from rmq.broker.replication.sync_state import GONE_MS, LOST_MS
from rmq.broker.replication.sync_state_proposal import PATIENCE_MS, REFUSED_MS, SWAP_MS
from rmq.broker.replication.sync_watch import POLL_S

pytestmark = pytest.mark.still_clock


async def two_and_a_dead_one(clock: DrivenClock, **given: object) -> Harness:
    """The set is {1, 3}, 3 has had no connection for a second, and 2 connects."""
    on = Harness(**given)
    on.learn(1, 3)
    on.core.acked = {3: 1000}
    await on.look()
    on.core.acked = {}
    await on.look()
    clock.advance(GONE_MS / 1000)
    on.core.acked = {2: 1000}
    return on


async def joining() -> Harness:
    """The acks of 2 count now, and 2 lacks what was answered without it: 1000 to 1200."""
    on = Harness()
    on.core.acked, on.core.answered = {2: 1000}, 1200
    await on.look()
    assert on.core.others == [2] and on.link.asked == []
    return on


@in_loop
async def test_a_dead_replica_is_not_waited_for_without_end_at_rocketmqs_controller(
    clock: DrivenClock,
) -> None:
    """The answer about 2 was lost, and 2 dies. RocketMQ's controller accepts no new epoch for an
    unchanged set, so the question cannot be settled by another one."""
    on = Harness()
    on.core.acked = {2: 1000}
    await on.fail(None)
    on.core.acked = {}
    on.link.fails = [2013] * 500
    await on.passing(clock, 29.0)
    assert on.core.others == [2], "the question may be on its way"
    await on.passing(clock, LOST_MS / 1000 + PAUSE_MS_MAX / 1000 + POLL_S - 29.0)
    assert on.core.others == []
    asked = len(on.link.asked)
    assert asked <= 52
    await on.passing(clock, 60.0)
    assert len(on.link.asked) == asked, "all is as it should be"


@pytest.mark.parametrize("code", [None, 1, 2001, 2013])
@in_loop
async def test_what_the_controller_does_not_decide_is_asked_ever_more_seldom(
    clock: DrivenClock, code: int | None
) -> None:
    """A question that the controller does not decide must be asked at each look first, and once a
    second at last. A new replica (3) is asked for at once."""
    on = Harness()
    on.core.acked = {2: 1000}
    on.link.fails = [code] * 1000
    await on.passing(clock, 0.8)
    assert len(on.link.asked) >= 7
    await on.passing(clock, 29.2)
    assert len(on.link.asked) <= 52
    asked = len(on.link.asked)
    await on.passing(clock, 10.0)
    assert 9 <= len(on.link.asked) - asked <= 11
    on.core.acked = {2: 1000, 3: 1000}
    await on.passing(clock, 2 * POLL_S)
    assert on.link.asked[-1][0] == [1, 2, 3]


@pytest.mark.parametrize("away_s", [0.5, 1.0, 2.0, 4.0, 8.0, 30.0])
@in_loop
async def test_a_controller_that_is_back_is_asked_soon(clock: DrivenClock, away_s: float) -> None:
    """A controller that is back must be asked within an eighth of the time that it was away, plus
    the time until the next look."""
    on = Harness()
    on.core.acked = {2: 1000}
    await on.away(clock, away_s)
    await on.passing(clock, min(away_s / PAUSE_DIVISOR, PAUSE_MS_MAX / 1000) + 2 * POLL_S)
    assert on.watch.members == {1, 2}


@in_loop
async def test_what_the_set_becomes_meanwhile_is_acted_on_at_once(clock: DrivenClock) -> None:
    """If another answer says that the set has become {1, 3}, the replicas in sync must be asked for
    with that set at once."""
    on = Harness()
    on.core.acked = {2: 1000, 3: 1000}
    on.link.fails = [2001] * 1000
    await on.passing(clock, 20.0)
    on.link.fails = []
    on.learn(1, 3)
    await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 2, 3}


@pytest.mark.parametrize("code", [None, 1, 2001, 2013])
@in_loop
async def test_what_the_controller_may_have_made_is_waited_for(code: int | None) -> None:
    """A replica that the controller may have added must be waited for. Code 1: the controller's
    etcd did not answer. 2001, 2013: the set is not the one known here, perhaps the one that was
    asked for."""
    on = Harness()
    on.core.acked = {2: 1000}
    await on.fail(code)
    assert on.core.others == [2]
    del on.core.acked[2]  # it has no connection any more, but still counts
    await on.fail(code)
    assert on.core.others == [2]
    assert on.link.asked == [([1, 2], 7, False), ([1], 7, True)]
    await on.look()  # the question is asked once more, and answered
    assert on.watch.members == {1} and on.core.others == []


@pytest.mark.parametrize("code", [None, 1, 2001, 2013])
@pytest.mark.parametrize("members", [(1, 2), (1, 3)])
@in_loop
async def test_a_question_that_another_answer_has_settled_is_not_open(
    clock: DrivenClock, code: int | None, members: tuple[int, ...]
) -> None:
    """If the answer to a lease brings a newer set while a question's answer is late, the question
    is settled: the controller does nothing more with the epoch that was asked with."""
    on = Harness()
    on.core.acked = {2: 1000, 3: 1000}
    on.link.take_time = lambda: on.learn(*members)
    on.link.fails = [code]
    await on.look()
    on.link.take_time = lambda: None
    assert on.watch.members == set(members)
    on.core.acked = dict.fromkeys(members[1:], 1000)
    asked = len(on.link.asked)
    await on.passing(clock, 5.0)
    assert on.core.others == list(members[1:]) and len(on.link.asked) == asked


@pytest.mark.parametrize("code", [2000, 2002, 2003, 2005, 2006])
@in_loop
async def test_a_refusal_is_not_waited_for(clock: DrivenClock, code: int) -> None:
    on = Harness()
    on.core.acked = {2: 1000}
    await on.fail(code)
    assert on.core.others == [] and on.watch.others == set()
    await on.look()
    assert on.link.asked == [([1, 2], 7, False)], "it is not asked for again at once"
    clock.advance(REFUSED_MS / 1000)
    await on.look()
    assert on.watch.members == {1, 2} and on.core.others == [2]
    assert on.link.asked == [([1, 2], 7, False)] * 2


@pytest.mark.parametrize(("given", "left"), [({}, {1, 3}), (ONE, {1})])
@in_loop
async def test_who_may_not_join_holds_no_answer_up_beside_a_dead_member(
    clock: DrivenClock, given: dict[str, object], left: set[int]
) -> None:
    """2 is refused, because its heartbeats do not reach the controller. 3 dies."""
    on = await two_and_a_dead_one(clock, **given)
    on.link.refused = frozenset({2})
    await on.passing(clock, SWAP_MS / 1000 + 0.4)
    assert on.watch.members == left and on.watch.is_short is on.core.is_short is (left != {1})
    asked = len(on.link.asked)
    await on.passing(clock, 10.0)
    assert on.watch.members == left and len(on.link.asked) - asked <= 6


@pytest.mark.parametrize("lag_s", [0.5, 1.5, 2.5, 4.0])
@pytest.mark.parametrize("has_dead", [True, False])
@in_loop
async def test_who_may_not_join_keeps_no_late_one_from_joining(
    clock: DrivenClock, lag_s: float, has_dead: bool
) -> None:
    """4 is refused. 2, whose tables are always some time old because they change at each look, must
    join all the same."""
    on = await two_and_a_dead_one(clock) if has_dead else Harness()
    on.core.acked = {2: 1000, 4: 1000}
    on.link.refused = frozenset({4})
    on.copies.count = 100
    for _ in range(round((lag_s + 4.5) / POLL_S)):
        on.copies.count += 1
        on.copies.had = {2: on.copies.count - round(lag_s / POLL_S)}
        await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 2} and not on.core.is_short
    assert [1] not in on.sets_asked()


@in_loop
async def test_many_who_may_not_join_keep_no_other_from_joining(clock: DrivenClock) -> None:
    on = Harness()
    on.link.refused = frozenset({2, 3, 5})
    on.core.acked = {2: 1000, 3: 1000, 4: 1000, 5: 1000}
    await on.passing(clock, 1.5)
    assert on.watch.members == {1, 4}


@in_loop
async def test_a_member_that_the_controller_takes_for_dead_keeps_no_dead_one(
    clock: DrivenClock,
) -> None:
    """2 acknowledges, but its heartbeats do not reach the controller. 4 dies, and must leave the
    set."""
    on = await two_and_a_dead_one(clock)
    await on.passing(clock, 0.3)
    on.core.acked = {2: 1000, 4: 1000}
    await on.passing(clock, 0.3)
    assert on.watch.members == {1, 2, 4}
    on.link.asked.clear()
    on.link.refused = frozenset({2})
    on.core.acked = {2: 1000}
    await on.passing(clock, 6.0)
    assert on.watch.members == {1, 2, 4} and on.core.is_short, "4 holds nothing up"
    asked = len(on.link.asked)
    await on.passing(clock, 10.0)
    assert on.core.is_short and len(on.link.asked) - asked <= 6, "2 is asked for at times"
    on.link.refused = frozenset()
    await on.passing(clock, 2.5)
    assert on.watch.members == {1, 2} and not on.core.is_short


@in_loop
async def test_who_may_not_join_keeps_no_other_from_joining(clock: DrivenClock) -> None:
    on = Harness()
    on.link.refused = frozenset({2})
    on.core.acked = {2: 1000, 3: 1000}
    await on.passing(clock, 1.0)
    assert on.watch.members == {1, 3}


@in_loop
async def test_a_member_that_the_controller_takes_for_dead_keeps_nobody_out(
    clock: DrivenClock,
) -> None:
    """3 hangs with an open connection, and the controller refuses sets with it. 2 must take its
    place."""
    on = await two_and_a_dead_one(clock)
    on.link.refused = frozenset({3})
    on.core.acked = {2: 1000, 3: 900}
    await on.passing(clock, PATIENCE_MS / 1000 - 1)
    assert on.watch.members == {1, 3}
    await on.passing(clock, 2 * REFUSED_MS / 1000 + 1)
    assert on.watch.members == {1, 2} and [1] not in on.sets_asked()


@pytest.mark.parametrize("answers_after_s", [0.0, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("seed", range(5))
@in_loop
async def test_a_passing_refusal_of_who_joins_does_not_leave_the_master_alone(
    clock: DrivenClock, answers_after_s: float, seed: int
) -> None:
    """3 is dead, and the controller learns of 2 a moment later than the master. 2 must join, and
    the master must not be alone in between."""
    maker = Random(seed)
    on = await two_and_a_dead_one(clock)
    on.link.refused = frozenset({2})
    on.link.take_time = lambda: clock.advance(answers_after_s)
    for step in range(40):
        if step == 3:
            on.link.refused = frozenset()
        clock.advance(maker.uniform(0.0005, 0.004))
        await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 2} and [1] not in on.sets_asked()


@in_loop
async def test_a_controller_that_is_back_hears_of_who_joins_a_moment_late(
    clock: DrivenClock,
) -> None:
    """While the controller is away 3 dies and 2 comes; then the controller learns of 2 a moment
    late. 2 must replace 3, and the master must not be alone in between."""
    on = await in_sync(clock, 3)
    on.core.acked = {2: 1000}
    await on.away(clock, 4.0)
    await on.unheard(clock, 0.2, 2)
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 2} and [1] not in on.sets_asked()


@in_loop
async def test_two_passing_refusals_are_no_long_one(clock: DrivenClock) -> None:
    """5 is dead. The controller learns of 3 a moment late, is away, and learns of 3 late once more.
    The two refusals must not count as one long one, which would cost 3 its place."""
    on = await in_sync(clock, 3, 5)
    on.core.acked = {3: 1000}
    await on.passing(clock, GONE_MS / 1000 - POLL_S)
    await on.unheard(clock, 0.3, 3)
    clock.advance(REFUSED_MS / 1000)
    await on.away(clock, 2.0)
    await on.unheard(clock, 0.2, 3)
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 3} and [1] not in on.sets_asked()


@in_loop
async def test_where_nobody_holds_answers_up_a_lost_answer_throws_nobody_out(
    clock: DrivenClock,
) -> None:
    """It is not known whether 2 joined. 2 acknowledges, and so does 3, whose heartbeats stay away
    for long. Nobody may be thrown out while nobody holds answers up."""
    on = await in_sync(clock, 3)
    on.core.acked = {2: 1000, 3: 1000}
    on.link.fails = [None]
    await on.passing(clock, POLL_S)
    on.link.refused = frozenset({3})
    await on.passing(clock, 4.5)
    assert on.watch.members == {1, 3} and on.core.others == [2, 3]
    on.link.refused = frozenset()
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 2, 3} and [1] not in on.sets_asked()


@in_loop
async def test_one_who_joins_takes_the_place_of_a_member_without_heartbeats(
    clock: DrivenClock,
) -> None:
    """3 has no heartbeats, and 5 is dead: 2 must replace both."""
    on = await in_sync(clock, 3, 5)
    on.core.acked = {2: 1000, 3: 1000}
    on.link.refused = frozenset({3})
    await on.passing(clock, 6.0)
    assert on.watch.members == {1, 2} and [1] not in on.sets_asked()


@pytest.mark.parametrize("least", [2, 3])
@in_loop
async def test_a_member_without_heartbeats_keeps_nobody_out_for_ever(
    clock: DrivenClock, least: int
) -> None:
    """3 acknowledges but has no heartbeats. It must leave the set after a while, because nobody
    could be elected if the master died."""
    on = await in_sync(clock, 3, **{**THREE, "minInSyncReplicas": least})
    on.core.acked = {2: 1000, 3: 1000, 4: 1000}
    on.link.refused = frozenset({3})
    await on.passing(clock, PATIENCE_MS / 1000 - 1)
    assert on.watch.members == {1, 3}
    await on.passing(clock, 2 * REFUSED_MS / 1000 + 1)
    assert on.watch.members == {1, 2, 4}
    asked = len(on.link.asked)
    await on.passing(clock, 30)
    assert on.watch.members == {1, 2, 4} and len(on.link.asked) - asked <= 50
    on.link.refused = frozenset()
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 2, 3, 4}


@in_loop
async def test_who_may_never_join_puts_no_member_out(clock: DrivenClock) -> None:
    on = await in_sync(clock, 3, 4)
    on.core.acked = {2: 1000, 3: 1000, 4: 1000}
    on.link.refused = frozenset({2})
    await on.passing(clock, 60)
    assert on.watch.members == {1, 3, 4} and len(on.link.asked) <= 150


@pytest.mark.parametrize("refused", [(2,), (5,), (2, 5)])
@pytest.mark.parametrize("dead", [(3,), (3, 4)])
@in_loop
async def test_of_two_who_join_neither_keeps_the_other_out_of_a_set_that_is_too_small(
    clock: DrivenClock, refused: tuple[int, ...], dead: tuple[int, ...]
) -> None:
    """Three replicas are needed. The former members are dead, but stay, as too few answer."""
    on = await in_sync(clock, *dead, **THREE)
    on.core.acked = {2: 1000, 5: 1000}
    on.link.refused = frozenset(refused)
    await on.passing(clock, 8.0)
    assert on.watch.members == {1, 2, 5, *dead} - on.link.refused and on.core.is_short
    assert on.watch.answering == {1, 2, 5} - on.link.refused
    on.link.refused = frozenset()
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 2, 5} and not on.core.is_short


@in_loop
async def test_a_refusal_that_outlasts_the_patience_leaves_no_master_alone_for_long(
    clock: DrivenClock,
) -> None:
    """The controller hears nobody's heartbeats for 2.1 s, and 5 is dead. 3 must be a member again
    soon after."""
    on = await in_sync(clock, 3, 5)
    on.core.acked = {3: 1000}
    await on.passing(clock, GONE_MS / 1000)
    await on.unheard(clock, 2.1, 1)
    await on.passing(clock, 0.4)
    assert on.watch.members == {1, 3}


@pytest.mark.parametrize("slow_s", [0.1, 1.0, 1.5])
@in_loop
async def test_a_controller_that_takes_its_time_is_asked_for_each_set(
    clock: DrivenClock, slow_s: float
) -> None:
    """5 is dead, and 2, 3 and 4 are refused. 6 must join even if each answer takes long."""
    on = await in_sync(clock, 5)
    on.core.acked = {2: 1000, 3: 1000, 4: 1000, 6: 1000}
    on.link.refused = frozenset({2, 3, 4})
    on.link.take_time = lambda: clock.advance(slow_s)
    await on.passing(clock, 4.0)
    assert on.watch.members == {1, 6}


@in_loop
async def test_who_was_refused_just_now_may_lack_what_is_on_its_way(clock: DrivenClock) -> None:
    on = await two_and_a_dead_one(clock)
    await on.unheard(clock, 0.3, 2)
    on.core.end, on.core.acked = 1300, {2: 1250}
    await on.passing(clock, 0.5)
    on.core.acked = {2: 1300}
    await on.passing(clock, REFUSED_MS / 1000)
    assert on.watch.members == {1, 2} and [1] not in on.sets_asked()


@in_loop
async def test_a_passing_refusal_throws_no_sound_member_out(clock: DrivenClock) -> None:
    """5 dies while the controller is away, which then learns of 3 a moment later than of 1. 3 must
    stay."""
    on = await in_sync(clock, 3, 5)
    on.core.acked = {3: 1000}
    await on.away(clock, 3.0)
    await on.unheard(clock, 0.3, 3)
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.watch.members == {1, 3} and [1] not in on.sets_asked()


@in_loop
async def test_members_that_the_controller_takes_for_dead_take_no_sound_one_with_them(
    clock: DrivenClock,
) -> None:
    """2 and 3 acknowledge but have no heartbeats, and 5 dies. 4 must stay in the set."""
    on = await in_sync(clock, 2, 3, 4, 5)
    on.core.acked = {2: 1000, 3: 1000, 4: 1000}
    on.link.refused = frozenset({2, 3})
    await on.passing(clock, 6.0)
    assert on.watch.members == {1, 4} and [1] not in on.sets_asked()


@in_loop
async def test_a_dead_one_that_perhaps_joined_is_not_waited_for_beside_a_refused_member(
    clock: DrivenClock,
) -> None:
    """The answer about 2 was lost, and 2 dies; 3 acknowledges but has no heartbeats. The dead 2
    must not be waited for."""
    on = await in_sync(clock, 3)
    on.core.acked = {2: 1000, 3: 1000}
    on.link.fails = [None]
    await on.passing(clock, POLL_S)
    assert on.core.others == [2, 3]
    on.core.acked = {3: 1000}
    on.link.refused = frozenset({3})
    await on.passing(clock, 8.0)
    assert on.watch.members == {1, 3} and on.core.is_short
    on.link.refused = frozenset()
    await on.passing(clock, REFUSED_MS / 1000 + 0.5)
    assert on.core.others == [3] and not on.core.is_short


@in_loop
async def test_who_has_everything_stays_when_too_few_are_left_to_answer(clock: DrivenClock) -> None:
    """The master has lost both connections. It may answer nothing with a set of one, and 2 or 3 is
    to be elected if it dies. They come back, and 2 is the slower one."""
    on = await in_sync(clock, 2, 3)
    on.link.asked.clear()
    on.core.acked = {}
    await on.passing(clock, GONE_MS / 1000 - POLL_S)
    assert not on.core.is_short, "who lives connects again within this time"
    await on.passing(clock, 4 * POLL_S)
    assert on.core.is_short and on.watch.answering == {1}, "at once, and no controller is asked"
    await on.passing(clock, 60.0)
    assert on.link.asked == [] and on.watch.members == {1, 2, 3}
    on.core.end = 1100  # what it stored at the end
    await on.passing(clock, POLL_S)
    on.core.acked = {2: 1000, 3: 1100}
    await on.passing(clock, 2 * POLL_S)
    assert not on.core.is_short and on.watch.members == {1, 3}, "two are enough"
    on.core.acked = {2: 1100, 3: 1100}
    await on.passing(clock, 2 * POLL_S)
    assert on.watch.members == {1, 2, 3} and not on.core.is_short


@in_loop
async def test_who_is_away_while_too_few_answer_goes_on_when_it_is_back(clock: DrivenClock) -> None:
    """A pair. It needs no decision of the controller, which is away."""
    on = await in_sync(clock, 2)
    on.link.is_away, on.core.acked = True, {}
    await on.passing(clock, 30.0)
    assert on.core.is_short and on.core.others == [2]
    on.core.acked = {2: 1000}
    await on.passing(clock, 2 * POLL_S)
    assert not on.core.is_short and on.watch.members == {1, 2}


@in_loop
async def test_a_silent_slave_stays_in_a_set_that_would_be_too_small(clock: DrivenClock) -> None:
    """Its connection is there, and it has not been at the end for haMaxTimeSlaveNotCatchup."""
    on = await in_sync(clock, 2)
    on.core.end = 1100
    await on.passing(clock, 14.5)
    assert not on.core.is_short
    await on.passing(clock, 1.0)
    assert on.core.is_short and on.watch.members == {1, 2}
    on.core.acked = {2: 1100}
    await on.passing(clock, 2 * POLL_S)
    assert not on.core.is_short


@in_loop
async def test_others_take_the_place_of_those_who_do_not_answer(clock: DrivenClock) -> None:
    """3 and 4 are dead; 5 comes, which makes the set large enough for answers."""
    on = await in_sync(clock, 3, 4)
    on.core.acked = {}
    await on.passing(clock, 10.0)
    assert on.core.is_short and on.watch.members == {1, 3, 4}
    on.core.acked = {5: 1000}
    await on.passing(clock, 2 * POLL_S)
    assert on.watch.members == {1, 5} and not on.core.is_short


@pytest.mark.parametrize("least", [1, 3])
@in_loop
async def test_a_small_set_of_equal_size_may_have_others(clock: DrivenClock, least: int) -> None:
    """Three are needed, two there were: the one who lives is of more use than the dead one."""
    on = await in_sync(clock, 3, **{**THREE, "minInSyncReplicas": least})
    on.core.acked, on.link.is_away = {}, True
    await on.passing(clock, GONE_MS / 1000 + POLL_S)
    on.core.acked, on.link.is_away = {2: 1000}, False
    await on.passing(clock, 1.0)
    assert on.watch.members == {1, 2}


@pytest.mark.parametrize("why", ["less", "learner", "says no losses", "any ack counts", "one"])
@in_loop
async def test_a_set_is_small_where_those_who_leave_may_lack_what_was_answered(
    clock: DrivenClock, why: str
) -> None:
    """`less`: 2 came back with an older store, and is gone again before the controller answers.
    `says no losses`: it is RocketMQ's, or the controller is."""
    given = {"any ack counts": {"allAckInSyncStateSet": "false"}, "one": ONE}.get(why, {})
    on = await in_sync(clock, 2, **given)
    on.core.acked = {}
    if why == "less":
        on.core.dispatched, on.core.acked, on.link.is_away = 1000, {2: 900}, True
        await on.passing(clock, 1.0)
        on.core.acked, on.link.is_away = {2: -1}, False
    elif why == "learner":
        on.core.acked, on.learners = {2: 1000}, frozenset({2})
    elif why == "says no losses":
        on.says_no_losses = frozenset({2})
    await on.passing(clock, 20.0)
    assert on.watch.members == {1} and on.core.is_short is (why != "one")


@in_loop
async def test_with_one_replica_that_is_enough_now_the_others_leave(clock: DrivenClock) -> None:
    """An operator sets minInSyncReplicas=1, or takes the dead one off."""
    on = await in_sync(clock, 2, **{**THREE, "minInSyncReplicas": 2})
    on.core.acked = {}
    await on.passing(clock, 5.0)
    assert on.core.is_short and on.watch.members == {1, 2}
    on.settings.set("minInSyncReplicas", "1")
    await on.passing(clock, 2 * POLL_S)
    assert on.watch.members == {1} and not on.core.is_short and on.core.others == []
    on.settings.set("minInSyncReplicas", "2")
    on.core.acked = {2: 1000}
    await on.passing(clock, 2 * POLL_S)
    on.core.acked = {}
    await on.passing(clock, 5.0)
    assert on.core.is_short and on.watch.members == {1, 2}
    on.learn(1, epoch=on.link.state.epoch + 1)
    await on.passing(clock, 2 * POLL_S)
    assert on.watch.members == {1} and on.core.is_short and on.core.others == []


@in_loop
async def test_a_set_that_is_too_small_still_grows(clock: DrivenClock) -> None:
    """Three replicas are needed, and 3 is refused. 2 must join all the same."""
    on = Harness(**THREE)
    on.link.refused = frozenset({3})
    on.core.acked = {2: 1000, 3: 1000}
    await on.passing(clock, 1.0)
    assert on.watch.members == {1, 2}


@in_loop
async def test_one_who_joins_has_what_was_answered_before_it_counted() -> None:
    on = await joining()
    on.core.acked = {2: 1200}
    await on.look()
    assert on.watch.members == {1, 2}


@in_loop
async def test_one_who_joins_may_lack_what_is_on_its_way(clock: DrivenClock) -> None:
    """A joining replica must have what was answered without it, but may lack newer messages. Under
    load it hardly ever has the very end, and once began to join again and again."""
    on = await joining()
    on.core.end = 1300
    await on.look()
    on.core.acked, on.core.end = {2: 1150}, 1400
    clock.advance(0.9)
    await on.look()
    assert on.core.others == [2] and on.link.asked == []
    on.core.acked, on.core.end = {2: 1250}, 1500
    await on.look()
    assert on.watch.members == {1, 2}


@in_loop
async def test_one_who_joins_and_does_not_keep_up_is_not_waited_for(clock: DrivenClock) -> None:
    on = await joining()
    on.core.end = 1300
    await on.look()
    clock.advance(1.1)
    await on.look()
    assert on.core.others == [] and on.link.asked == []


@in_loop
async def test_one_who_joins_and_comes_back_with_less_does_not_join(clock: DrivenClock) -> None:
    """A joining replica whose ack of 1280 counted, and which lost everything from 1250 on in a
    power cut, must not join."""
    on = await joining()
    on.core.dispatched, on.core.end = 1280, 1300
    on.core.acked = {2: 1250}
    await on.look()
    assert on.link.asked == []


@in_loop
async def test_one_who_joins_goes_on_when_another_set_is_learned() -> None:
    """When another set is learned, a joining replica must not begin anew, because its acks have
    counted all the time."""
    on = await joining()
    on.learn(1)
    assert on.core.others == [2]
    on.core.answered = 5000
    on.core.acked = {2: 1200}
    await on.look()
    assert on.link.asked == [([1, 2], 8, False)] and on.watch.members == {1, 2}


@in_loop
async def test_who_has_the_log_alone_does_not_join_and_is_named(clock: DrivenClock) -> None:
    on = Harness()
    on.core.acked = {2: 1000, 3: 1000}
    on.copies.had = {2: -1}
    await on.look()
    assert on.watch.members == {1, 3} and on.watch.problem == ""
    clock.advance(4.9)
    await on.look()
    assert on.watch.problem == ""
    clock.advance(0.2)
    await on.look()
    assert "replicas [2] have the log" in on.watch.problem
    on.copies.had.clear()
    await on.look()
    assert on.watch.members == {1, 2, 3} and on.watch.problem == ""


@in_loop
async def test_one_who_joins_has_the_changes_that_were_answered_before_it_counted(
    clock: DrivenClock,
) -> None:
    """A slave that was out of sync when a topic was deleted must copy that change before it joins.
    Its copies stand still here."""
    on = Harness()
    on.core.acked = {2: 1000}
    on.copies.had = {2: 7}
    on.copies.count = 8  # a topic was deleted, and no deletion waited for 2
    await on.look()
    assert on.watch.members == {1} and on.link.asked == []
    clock.advance(3.0)
    await on.look()
    assert on.link.asked == []
    on.copies.had = {2: 8}
    await on.look()
    assert on.watch.members == {1, 2}


@in_loop
async def test_who_joins_waits_for_no_change_that_waits_for_it(clock: DrivenClock) -> None:
    """A joining replica must not be kept waiting for changes that are answered with its ack anyway:
    offsets change all the time."""
    on = await joining()
    on.copies.had, on.copies.count = {2: 7}, 9
    on.core.acked = {2: 1200}
    await on.look()
    assert on.watch.members == {1, 2}


@in_loop
async def test_who_joins_and_has_old_tables_is_not_waited_for(clock: DrivenClock) -> None:
    on = await joining()
    on.copies.had = {2: 7}
    for on.copies.count in range(8, 17):
        clock.advance(10.0)
        await on.look()
    assert on.core.others == [] and on.link.asked == [], "its copies stand still"


@in_loop
async def test_a_member_stays_while_it_copies_anew(clock: DrivenClock) -> None:
    """A member whose connection was lost must stay while it copies the tables anew, because it
    still has what it had. A replica whose log is still on its way must not be reported for its
    tables."""
    on = Harness()
    on.core.acked = {2: 1000, 3: 10}
    await on.look()
    on.copies.had = {2: -1, 3: -1}
    for _ in range(8):
        clock.advance(1.0)
        await on.look()
    assert on.watch.members == {1, 2} and on.watch.problem == ""


@in_loop
async def test_a_member_whose_copies_fail_leaves_and_is_named(clock: DrivenClock) -> None:
    """A member that has the log, but whose copies of the tables fail, must leave the set and be
    named in the problem. If it were elected, everybody would get its tables, with offsets of long
    ago."""
    on = await in_sync(clock, 2, 3)
    on.core.acked = {2: 1000, 3: 1000}
    on.copies.had = {2: on.copies.count}
    for _ in range(1100):  # offsets change all the time
        on.copies.count += 1
        await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 2, 3}, "its tables are of 110 s ago: a copy takes its time"
    for _ in range(200):
        on.copies.count += 1
        await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 3} and on.core.others == [3]
    assert "replicas [2] have the log" in on.watch.problem
    on.copies.had.clear()
    await on.passing(clock, 2 * POLL_S)
    assert on.watch.members == {1, 2, 3} and on.watch.problem == ""


@in_loop
async def test_a_member_that_copies_anew_in_time_has_all_of_it_again(clock: DrivenClock) -> None:
    """Each lost connection must give a member a whole minute of its own to copy the tables."""
    on = await in_sync(clock, 2)
    for _ in range(3):
        on.copies.had = {2: -1}
        await on.passing(clock, 40.0)
        on.copies.had = {}
        await on.passing(clock, POLL_S)
    assert on.watch.members == {1, 2} and on.watch.problem == ""


@in_loop
async def test_where_a_number_of_slaves_counts_the_core_is_told_of_no_set() -> None:
    """With allAckInSyncStateSet=false the core must be told of no set: with an empty one it would
    answer everything that waits."""
    on = Harness(allAckInSyncStateSet="false")
    on.core.acked = {2: 1000}
    await on.look()
    assert on.watch.members == {1, 2} and on.core.others is None
