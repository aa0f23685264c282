"""The runtime table, rates, and statistics by name. The clock is moved by hand."""

import json
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.status import counter_history
from rmq.broker.status.counter_history import CounterHistory
from rmq.broker.tables.topic_config import TopicConfig

KEYS_OF_MQADMIN = """
brokerVersionDesc brokerActive putTps getTransferredTps getTransferedTps
msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
sendThreadPoolQueueSize pullThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
pullThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills earliestMessageTimeStamp
commitLogDiskRatio timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps
timerDequeueTps runtime bootTimestamp putMessageEntireTimeMax putMessageDistributeTime
"""


@in_loop
async def test_the_table_holds_what_mqadmin_reads_with_real_numbers(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        broker.core.counters.update(messages_in=5, bytes_in=50, messages_out=3)
        broker.core.store("t", 0, store_timestamp_ms=77)
        table = json.loads((await broker.core.client().call(28)).body)["table"]
        assert set(KEYS_OF_MQADMIN.split()) <= set(table)
        assert all(isinstance(value, str) for value in table.values())
        assert table["msgPutTotalTodayNow"] == "5"
        assert table["msgGetTotalTodayNow"] == "3"
        # The stand-in's four messages took 896 to 1023 us.
        assert table["putMessageEntireTimeMax"] == "1"
        assert table["putMessageAverageSize"] == "10.0"
        assert table["commitLogMaxOffset"] == str(broker.core.log_end)
        assert table["earliestMessageTimeStamp"] == "77"
        assert 0 < float(table["commitLogDiskRatio"]) < 1
        assert len(table["putTps"].split()) == 3


# What BrokerRuntimeStats of apache/rocketmq-exporter (e1ab2dd) parses. If one key is missing, it
# shows nothing of the table.
KEYS_OF_THE_EXPORTER = """
msgPutTotalTodayNow putMessageDistributeTime putTps getMissTps getTransferredTps getTotalTps
getFoundTps commitLogDirCapacity sendThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills remainHowManyDataToFlush msgGetTotalTodayNow
queryThreadPoolQueueSize bootTimestamp msgPutTotalYesterdayMorning msgGetTotalYesterdayMorning
pullThreadPoolQueueSize commitLogMinOffset pullThreadPoolQueueHeadWaitTimeMills runtime
dispatchMaxBuffer brokerVersion consumeQueueDiskRatio pageCacheLockTimeMills commitLogDiskRatio
commitLogMaxOffset getMessageEntireTimeMax msgPutTotalTodayMorning putMessageTimesTotal
msgGetTotalTodayMorning brokerVersionDesc sendThreadPoolQueueSize startAcceptSendRequestTimeStamp
putMessageEntireTimeMax earliestMessageTimeStamp remainTransientStoreBufferNumbs
queryThreadPoolQueueCapacity putMessageAverageSize dispatchBehindBytes putMessageSizeTotal
sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity putLatency99 putLatency999
"""


@in_loop
async def test_the_table_holds_what_rocketmq_exporter_parses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        (11, 0, False): ([1, 0, 0, 0, 2, 0, 0, 0, 0, 0], 12),
        (11, 19, True): ([0] * 9 + [3], 60_000),  # held pulls: they waited for messages
        (310, 0, False): ([0] * 9 + [1], 5000),
    }
    async with control(tmp_path) as broker:
        monkeypatch.setattr(broker.core, "rpc_times", lambda: rows)
        table = json.loads((await broker.core.client().call(28)).body)["table"]
        assert set(KEYS_OF_THE_EXPORTER.split()) <= set(table)
        assert table["getMessageEntireTimeMax"] == "10"


@in_loop
async def test_what_waits_for_its_time_is_told_as_rocketmq_tells_it(tmp_path: Path) -> None:
    async with control(tmp_path, messageDelayLevel="1s 5s") as broker:
        broker.core.counters |= {
            "timers_late_ms": 2999, "timers_behind": 4, "timers_waiting": 50_000_000,
        }  # fmt: skip
        for _ in range(3):
            broker.core.store("SCHEDULE_TOPIC_XXXX", 1)
        broker.core.delivered_to = [0, 2]
        table = json.loads((await broker.core.client().call(28)).body)["table"]
        assert {name: text for name, text in table.items() if name.startswith("timer")} == {
            "timerReadBehind": "2", "timerOffsetBehind": "4", "timerCongestNum": "50000000",
            "timerEnqueueTps": "0.0", "timerDequeueTps": "0.0",
        }  # fmt: skip
        assert table["scheduleMessageOffset_1"] == "0,0"
        assert table["scheduleMessageOffset_2"] == "2,3"


@in_loop
async def test_the_store_pool_is_told_as_rocketmq_tells_it(tmp_path: Path) -> None:
    async with control(tmp_path, mappedFileSizeCommitLog=1 << 20) as broker:
        client = broker.core.client()
        table = json.loads((await client.call(28)).body)["table"]
        assert table["remainTransientStoreBufferNumbs"] == str(2**31 - 1)
        assert table["remainHowManyDataToCommit"] == "0 B"
    async with control(
        tmp_path, mappedFileSizeCommitLog=1 << 20, fastFailIfNoBufferInStorePool=True
    ) as broker:
        broker.core.counters |= {
            "log_pooled": 1, "log_ring_bytes": 4 << 20,
            "log_appended": 5_000_000, "log_written": 3_500_000,
        }  # fmt: skip
        table = json.loads((await broker.core.client().call(28)).body)["table"]
        assert table["remainTransientStoreBufferNumbs"] == "2"
        assert table["remainHowManyDataToCommit"] == "1.4 MiB"


def test_rates_are_growth_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(counter_history.clock, "monotonic", lambda: now[0])
    taken = CounterHistory()
    assert taken.rate("n", 10) == 0.0
    for step in range(121):  # 100 a second, then 10 a second in the last minute
        taken.take({"n": step * 1000 if step <= 114 else 114_000 + (step - 114) * 100})
        now[0] += 10
    assert taken.rate("n", 10) == pytest.approx(10)
    assert taken.rate("n", 60) == pytest.approx(10)
    assert taken.rate("n", 600) == pytest.approx(91)
    growth, took = taken.over("n", 3600)  # only 20 minutes were seen
    assert (growth, took) == (114_600, pytest.approx(1200))
    assert taken.three_rates("n").split()[0] == "10.000"


@in_loop
async def test_stats_by_name(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        await broker.topics.create(TopicConfig("t", 1, 1))
        ask = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "t"}
        first = json.loads((await client.call(315, **ask)).body)
        assert first["statsMinute"] == {"avgpt": 0.0, "sum": 0, "tps": 0.0}
        for _ in range(4):
            broker.core.store("t", 0)
        broker.take_sample()
        second = json.loads((await client.call(315, **ask)).body)
        assert second["statsDay"]["sum"] == 4
        whole = await client.call(315, statsName="BROKER_PUT_NUMS", statsKey="DefaultCluster")
        assert whole.code == 0
        for name, key in (("TOPIC_PUT_NUMS", "no"), ("GROUP_GET_NUMS", "t@g"), ("x", "y")):
            assert (await client.call(315, statsName=name, statsKey=key)).code == 1


@in_loop
async def test_what_a_group_consumes_is_counted_from_the_first_question_on(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        ask = {"statsName": "GROUP_GET_NUMS", "statsKey": "t@g"}
        assert (await client.call(315, **ask)).code == 1
        for queue in (0, 1):
            broker.offsets.commit("g", "t", queue, 100)
        assert (await client.call(315, **ask)).code == 0
        broker.take_sample()
        broker.offsets.commit("g", "t", 1, 150)
        broker.take_sample()
        minute = json.loads((await client.call(315, **ask)).body)["statsMinute"]
        assert (minute["sum"], minute["tps"] > 0) == (50, True)
        # An operator moves the offset back: nothing was consumed.
        broker.offsets.commit("g", "t", 0, 0)
        broker.take_sample()
        minute = json.loads((await client.call(315, **ask)).body)["statsMinute"]
        assert minute["sum"] == 0
        broker.offsets.remove_group("g")
        broker.take_sample()
        assert (await client.call(315, **ask)).code == 1
