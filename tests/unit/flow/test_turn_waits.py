"""Goal: a reactor that waits for others sleeps: while its timers are behind, and while the files of
timers are late.

Method: the test makes the turns of a core and asks for how long each step would let the reactor
sleep. Cannot prove: how long the kernel makes it sleep.
"""

from pathlib import Path

import pytest
from support.driven_clock import DrivenClock
from support.driven_shard import DrivenShard
from support.popping import POP, REVIVE_LOG, pop_fields
from support.shard import Shard, request, send

from rmq.format.message import encode_properties
from rmq.names import TIMER_TOPIC

FOR_EVER = 2**31 - 1  # NO_WAIT of cext/flow/context/step.pxd

pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]


def timed(topic: str, due_ms: int, opaque: int = 1) -> bytes:
    marks = encode_properties({"TIMER_DELIVER_MS": str(due_ms)}).decode()
    return send(topic, opaque=opaque, i=marks)


def test_a_check_point_wakes_nobody_while_the_timers_are_behind_it(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A timed message waits for its topic, and what was popped comes again only after it."""
    with DrivenShard(tmp_path) as shard:
        core = shard.core
        for topic in (TIMER_TOPIC, REVIVE_LOG, "%RETRY%g_t", "gone"):
            shard.topic(topic)
        core.set_delay_levels([1000], [0])
        client = shard.connect()
        client.put(send("t"), timed("gone", clock.now_ms() + 30_000, 2))
        assert [reply.code for reply in shard.replies(client, 2)] == [0, 0]
        core.remove_topic(b"gone")
        client.put(request(POP, **pop_fields("g", "t", invisibleTime=60_000)))
        assert shard.replies(client, 1)[0].code == 0
        clock.advance(61)
        shard.turn_until(lambda: core.queue_range(REVIVE_LOG.encode(), 0) == (0, 1))
        shard.driven.turn()
        waits = shard.driven.waits()
        assert (core.stats()["pop_revived"], waits["revive"]) == (0, FOR_EVER)
        assert 0 <= waits["timers"] <= 100
        shard.topic("gone")
        clock.advance(0.2)
        shard.turn_until(lambda: core.stats()["pop_revived"] == 1)


def test_a_keeper_of_timers_that_is_late_is_looked_for_less_and_less(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Shard(tmp_path) as shard:
        shard.topic("t")
        shard.topic(TIMER_TOPIC)
        assert shard.connect().ask(timed("t", clock.now_ms() + 30_000)).code == 0
        shard.until(lambda stats: stats["timers_fed"] == 1)
    with DrivenShard(tmp_path) as shard:  # no thread hands over what is in the file
        shard.topic(TIMER_TOPIC)
        clock.advance(31)
        shard.turn_until(lambda: shard.core.stats()["timers_ready"])
        assert shard.driven.waits()["timers"] <= 10
        for _ in range(4):
            clock.advance(1)
            shard.driven.turn()
        assert shard.driven.waits()["timers"] == 100
        assert shard.core.stats()["timers_delivered"] == 0
