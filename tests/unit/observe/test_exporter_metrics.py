"""/metrics by rocketmq-exporter's names, as Prometheus' own parser reads it.

Method: samples made here, rates of the last minute from two of them, and the runtime table as a
broker answers it. Also shown here: dashboards and alerts of the exporter find each name. Not shown:
a whole broker, which tests/process/test_operating.py asks.
"""

import gc
import tracemalloc

import pytest

from rmq.observe.exporter_metrics import Looked, render_exporter
from rmq.observe.metrics import render
from rmq.observe.minute import Minute, Rates
from rmq.observe.sample import (
    ClientSample,
    DeliverySample,
    LagSample,
    Sample,
    SlaveSample,
    TopicSample,
    decode,
    encode,
)

parser = pytest.importorskip("prometheus_client.parser")

TABLE = {
    "brokerVersionDesc": "V5_3_3", "brokerVersion": "479", "bootTimestamp": "1763000000000",
    "putTps": "1.000 2.504 3.000", "getTransferredTps": "4.000 5.000 6.000",
    "getTransferedTps": "4.000 5.000 6.000", "getFoundTps": "1 1 1", "getMissTps": "2 2 2",
    "getTotalTps": "3 3 3", "putMessageDistributeTime": "[<=0ms]:7 [0~10ms]:2 [10s~]:1",
    "remainHowManyDataToFlush": "1.5 MiB", "msgPutTotalTodayNow": "10",
    "commitLogDirCapacity": "Total : 2.0 GiB, Free : 512.0 MiB.",
    "commitLogDiskRatio": "0.2500", "commitLogMaxOffset": "4096", "commitLogMinOffset": "0",
}  # fmt: skip

# The metrics that grafana's dashboard 10477 and example.rules of apache/rocketmq-exporter (e1ab2dd)
# ask for, without rocketmq_client_.., for which the exporter asks the clients, and
# rocketmq_brokeruntime_.., which come from the table.
ASKED = {
    "rocketmq_broker_qps", "rocketmq_broker_tps", "rocketmq_consumer_message_size",
    "rocketmq_consumer_offset", "rocketmq_consumer_tps", "rocketmq_group_diff",
    "rocketmq_group_get_latency_by_storetime", "rocketmq_group_retrydiff",
    "rocketmq_producer_message_size", "rocketmq_producer_offset", "rocketmq_producer_tps",
    "rocketmq_topic_dlq_offset", "rocketmq_topic_retry_offset",
}  # fmt: skip


def sample(shard: int = 0, uptime_ms: int = 60_000, messages: int = 120) -> Sample:
    return Sample(
        cluster="C", broker=f"b-{shard}" if shard else "b", shard=shard, pid=7, uptime_ms=uptime_ms,
        address=f"10.0.0.5:109{shard + 1}1",
        topics=[
            TopicSample('odd"name', messages, 10 * messages, end=500),
            TopicSample("%RETRY%g", messages, 0, end=8),
            TopicSample("%DLQ%g", 0, 0, end=3),
        ],
        deliveries=[DeliverySample("g", 'odd"name', messages // 2, 5 * messages),
                    DeliverySample("g", "%RETRY%g", 3, 30)],
        lags=[LagSample("g", 'odd"name', 40, latency_ms=900, committed=460),
              LagSample("g", "%RETRY%g", 5, committed=3), LagSample("h", "%DLQ%g", 2)],
        producers=[ClientSample("p", "java", "479", 2), ClientSample("p", "go", "1", 1)],
        consumers=[ClientSample("g", "go", "1", 1, "push"), ClientSample("g", "java", "1", 2)],
    )  # fmt: skip


def shown(*shards: Looked) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """{metric: {sorted labels: value}}; all metrics are gauges."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in parser.text_string_to_metric_families(render_exporter(shards).decode()):
        assert family.type == "gauge" and family.name not in found
        table = found[family.name] = {}
        for row in family.samples:
            key = tuple(sorted(row.labels.items()))
            assert key not in table, (family.name, key)
            table[key] = row.value
    return found


def looked(one: Sample, minute: Minute | None = None) -> Looked:
    return Looked(one, (minute or Minute()).rates(one), TABLE)


def test_names_and_labels_are_the_exporters() -> None:
    found = shown(looked(sample()))
    broker = (("broker", "b"), ("cluster", "C"))
    topic = (*broker, ("topic", 'odd"name'))
    pair = (*broker, ("group", "g"), ("topic", 'odd"name'))
    address = (("broker", "b"), ("brokerIP", "10.0.0.5:10911"), ("cluster", "C"))
    assert found["rocketmq_producer_tps"] == {topic: 2}  # since the start, which was a minute ago
    assert found["rocketmq_producer_message_size"] == {topic: 20}
    assert found["rocketmq_producer_offset"] == {topic: 500}
    assert found["rocketmq_topic_retry_offset"] == {(*broker, ("topic", "%RETRY%g")): 8}
    assert found["rocketmq_topic_dlq_offset"] == {(*broker, ("group", "g")): 3}
    assert found["rocketmq_consumer_tps"] == {pair: 1}
    assert found["rocketmq_consumer_message_size"] == {pair: 10}
    retries = (*broker, ("group", "g"), ("topic", "%RETRY%g"))
    assert found["rocketmq_consumer_offset"] == {pair: 460, retries: 3}
    # Known only for this pair.
    assert found["rocketmq_group_get_latency_by_storetime"] == {pair: 900}
    assert found["rocketmq_producer_count"] == {(*broker, ("group", "p")): 3}
    assert found["rocketmq_broker_tps"] == {address: 2.5}
    assert found["rocketmq_broker_qps"] == {address: 5}
    assert set(found) >= ASKED


def test_groups_are_told_over_all_shards() -> None:
    found = shown(looked(sample()), looked(sample(1)))

    def key(topic: str, group: str, online: str) -> tuple[tuple[str, str], ...]:
        labels = {"countOfOnlineConsumers": online, "group": group, "msgModel": "1", "topic": topic}
        return tuple(sorted(labels.items()))

    assert found["rocketmq_group_diff"] == {key('odd"name', "g", "3"): 80}
    assert found["rocketmq_group_retrydiff"] == {key("%RETRY%g", "g", "3"): 10}
    assert found["rocketmq_group_dlqdiff"] == {key("%DLQ%g", "h", "0"): 4}
    counts = {dict(labels)["group"]: n for labels, n in found["rocketmq_group_count"].items()}
    assert counts == {"g": 3, "h": 0}
    assert {dict(labels)["broker"] for labels in found["rocketmq_producer_tps"]} == {"b", "b-1"}


def test_a_slave_that_lacks_something_is_told_by_its_address() -> None:
    one = sample()
    one.slaves = [SlaveSample("10.0.0.7:4011", 300, 20, 2)]
    labels = (("broker", "b"), ("brokerIP", "10.0.0.7:4011"), ("cluster", "C"))
    assert shown(looked(one))["rocketmq_broker_commitlog_diff"] == {labels: 300}


def test_the_runtime_table_is_told_in_numbers() -> None:
    found = shown(looked(sample()))
    labels = tuple(
        sorted(
            {
                "cluster": "C", "brokerIP": "10.0.0.5:10911", "brokerHost": "", "des": "V5_3_3",
                "boottime": "1763000000000", "broker_version": "479",
            }.items()
        )
    )  # fmt: skip
    for name, value in {
        "put_tps10": 1, "put_tps60": 2.504, "put_tps600": 3, "gettransfered_tps60": 5,
        "gettotal_tps10": 3, "pmdt_0ms": 7, "pmdt_0to10ms": 2, "pmdt_10stomore": 1,
        "remain_howmanydata_toflush": 1.5 * 1024**2, "msg_put_total_today_now": 10,
        "commitlogdir_capacity_total": 2 * 1024**3, "commitlogdir_capacity_free": 512 * 1024**2,
        "commitlog_disk_ratio": 0.25, "commitlog_maxoffset": 4096,
    }.items():  # fmt: skip
        assert found[f"rocketmq_brokeruntime_{name}"] == {labels: value}, name
    # Because the table does not have it.
    assert "rocketmq_brokeruntime_earliest_message_timestamp" not in found


def test_what_a_broker_does_not_know_has_no_line() -> None:
    bare = Looked(Sample(cluster="C", broker="b"), Rates({}, {}), {})
    assert [name for name, rows in shown(bare).items() if rows] == []


def test_no_name_is_also_one_of_ours() -> None:
    ours = {
        family.name for family in parser.text_string_to_metric_families(render([sample()]).decode())
    }
    assert ours and not ours & set(shown(looked(sample())))


def test_rates_are_of_the_last_minute() -> None:
    minute = Minute()
    told = []
    for second, messages in ((0, 0), (15, 15), (30, 30), (45, 45), (60, 60), (75, 660)):
        rates = minute.rates(sample(uptime_ms=1000 + second * 1000, messages=messages))
        told.append(rates.stored['odd"name'][0])
    assert told[:5] == [0, 1, 1, 1, 1]
    assert told[5] == (660 - 15) / 60
    # Because nobody has looked for long.
    late = minute.rates(sample(uptime_ms=376_000, messages=960))
    assert late.stored['odd"name'] == (1, 10)
    assert late.delivered["g", 'odd"name'] == (0.5, 5)


def test_looks_in_quick_succession_keep_the_older_ones() -> None:
    minute = Minute()
    for second in range(1, 61):
        minute.rates(sample(uptime_ms=second * 1000, messages=second))
    assert len(minute._kept[0]) == 4
    rates = minute.rates(sample(uptime_ms=61_000, messages=121))
    assert rates.stored['odd"name'][0] == 2
    again = minute.rates(sample(uptime_ms=61_000, messages=121))
    assert again.stored == rates.stored


def test_a_new_process_counts_from_its_start() -> None:
    minute = Minute()
    minute.rates(sample(uptime_ms=500_000, messages=9000))
    fresh = sample(uptime_ms=10_000, messages=20)
    fresh.pid = 8
    assert minute.rates(fresh).stored['odd"name'][0] == 2
    begun = sample(uptime_ms=25_000, messages=5)  # the topic was deleted and made anew
    begun.pid = 8
    assert minute.rates(begun).stored['odd"name'][0] == 0


def test_a_new_process_of_the_same_number_counts_from_its_start() -> None:
    """A process with the number of the former one must count from its start: in a container every
    process has number 1."""
    minute = Minute()
    minute.rates(at(100_000, uptime_ms=20_000, messages=9000))
    assert minute.rates(at(160_000, uptime_ms=40_000, messages=40)).stored['odd"name'][0] == 1


def test_looks_may_come_in_another_order_than_their_samples() -> None:
    """Looks may come in another order than their samples: one that asked the other shards too is
    answered after one that asked this shard alone."""
    minute = Minute()
    minute.rates(at(1_000_000, uptime_ms=900_000, messages=0))
    for second in (15, 30, 45, 60):
        taken = at(1_000_000 + second * 1000, uptime_ms=900_000 + second * 1000, messages=second)
        late = at(taken.now_ms - 700, uptime_ms=taken.uptime_ms - 700, messages=second)
        assert minute.rates(taken).stored['odd"name'][0] == 1
        told = minute.rates(late).stored['odd"name'][0]
        assert told == (second / (second - 0.7) if second > 15 else second / 914.3)


def test_a_look_just_after_the_first_one_is_of_no_moment() -> None:
    minute = Minute()
    minute.rates(sample(uptime_ms=100_000, messages=100))
    assert minute.rates(sample(uptime_ms=100_010, messages=101)).stored['odd"name'][0] == (
        101 / 100.01
    )


def test_little_is_kept_of_a_look() -> None:
    """Of each look only what rates are made of may be kept for a topic."""
    minute = Minute()
    before = 0
    tracemalloc.start()
    try:
        for number in range(3):
            before = tracemalloc.get_traced_memory()[0]
            minute.rates(decode(encode(many_topics(number * 15_000))))
            gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(minute._kept[0]) == 3
    assert kept < 300 * 2000, kept


def many_topics(uptime_ms: int) -> Sample:
    numbers = [uptime_ms + 1000 + each for each in range(20)]
    return Sample(
        pid=7, uptime_ms=uptime_ms,
        topics=[
            TopicSample(f"topic-{each}", uptime_ms + 1000, uptime_ms + 2000, numbers=numbers)
            for each in range(2000)
        ],
    )  # fmt: skip


def at(now_ms: int, uptime_ms: int, messages: int) -> Sample:
    made = sample(uptime_ms=uptime_ms, messages=messages)
    made.now_ms = now_ms
    return made


def test_a_shard_that_stands_is_nobodys_beginning() -> None:
    minute = Minute()
    minute.rates(sample(uptime_ms=10_000, messages=600))
    stands = Sample(shard=0, pid=7, uptime_ms=30_000, state="standing")
    assert minute.rates(stands).stored == {}
    assert minute.rates(sample(uptime_ms=70_000, messages=720)).stored['odd"name'][0] == 2
