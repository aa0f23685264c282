"""Goal: what RocketMQ's slaves ask their master every few seconds about timed messages is answered
in their form. That they accept the answers: tests/compat/test_replicas.py."""

from __future__ import annotations

import time
from pathlib import Path

from support.broker_client import BrokerClient
from support.live_broker import live_broker
from support.live_replicas import MASTER, TOPIC
from support.name_server import in_loop

from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.format.timer_position import read_timer_check

CHECK, METRICS = RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS


@in_loop
async def test_no_figure_is_given_of_how_many_timed_messages_wait(tmp_path: Path) -> None:
    """The number of waiting timed messages must be answered by an empty table, whose version never
    changes, so that RocketMQ's slaves can read it. RocketMQ's wheel keeps such a number for each
    topic; it is only shown and decides nothing."""
    async with (
        live_broker(tmp_path, **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="t", **TOPIC)
        before = await client.call(METRICS)
        due_ms = int(time.time() * 1000) + 3_600_000
        assert (await client.send("t", i=f"TIMER_DELIVER_MS\x01{due_ms}\x02")).code == 0
        after = await client.call(METRICS)
        assert after.code == before.code == 0
        version = {"stateVersion": 0, "timestamp": 0, "counter": 0}
        assert fastjson.loads_object(after.body) == {"dataVersion": version, "timingCount": {}}
        assert after.body == before.body
        # Such a slave goes on from this place in the timed messages when it becomes master.
        check = await client.call(CHECK)
        assert check.code == 0
        fired_ms, _ = read_timer_check(check.body, time.time())
        assert 0 <= fired_ms < due_ms


@in_loop
async def test_a_broker_without_timers_says_so(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path, **MASTER, timerWheelEnable="false") as master,
        BrokerClient(master.core.port) as client,
    ):
        refused = await client.call(CHECK)
        assert refused.code == 1 and "timerWheelEnable=false" in (refused.remark or "")
        assert (await client.call(METRICS)).code == 0
