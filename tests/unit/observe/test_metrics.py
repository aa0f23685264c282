"""/metrics as Prometheus' own parser reads it: names, labels, histograms, several shards."""

import re

import pytest

from rmq.observe.exposition import Exposition
from rmq.observe.metrics import render
from rmq.observe.sample import (
    ClientSample,
    CreationSample,
    DeliverySample,
    LagSample,
    RpcSample,
    Sample,
    SlaveSample,
    TopicSample,
    decode,
    encode,
)

parser = pytest.importorskip("prometheus_client.parser")


def sample(shard: int = 0) -> Sample:
    counts = [0] * 100
    counts[5], counts[35], counts[99] = 2, 3, 1
    return Sample(
        cluster="C", broker=f"b-{shard}" if shard else "b", shard=shard, permission=6,
        cpu_ms=1500, rss_bytes=4096,
        counters={"log_written": 100, "log_durable": 60, "log_first": 10, "log_dispatched": 100,
                  "topics": 3, "turns": 7, "writable": 1, "poisoned": 0},
        pools={"reply": (16384, 100, 3, 7, 2)},
        latencies={"append": (counts, 5000), "flush": ([0] * 100, 0)},
        topics=[TopicSample('odd"name\\', 5, 500, 2, 200), TopicSample("TBW102", 1, 1, 1, 1, True)],
        lags=[LagSample("g", "%RETRY%g", 4)],
        producers=[ClientSample("p", "java", "v5_3_3", 2), ClientSample("q", "java", "v5_3_3", 3)],
        consumers=[ClientSample("g", "go", "v4_1_0", 1, "push")],
    )  # fmt: skip


def parsed(text: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """{metric: {sorted labels: value}}, without the labels that all metrics have."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in parser.text_string_to_metric_families(text.decode()):
        for row in family.samples:
            labels = dict(row.labels)
            assert labels.pop("cluster") == "C"
            assert labels.pop("node_type") == "broker"
            assert labels.pop("node_id") in ("b", "b-1")
            table = found.setdefault(row.name, {})
            key = tuple(sorted(labels.items()))
            assert key not in table, (row.name, key)
            table[key] = row.value
    return found


def test_roles_and_lags_of_replicas() -> None:
    led = sample()
    led.role, led.master_epoch, led.in_sync, led.in_sync_min = "master", 4, 2, 2
    led.slaves = [SlaveSample("127.0.0.1:4011", 300, 20, 2), SlaveSample("127.0.0.1:4012", 0, 0)]
    slave = sample(1)
    slave.role, slave.master_epoch, slave.follows = "slave", 4, "127.0.0.1:10912"
    found = parsed(render([led, slave]))
    first, second = ("shard", "0"), ("shard", "1")
    assert found["rmq_role"] == {
        (("role", "master"), first): 1, (("role", "slave"), first): 0,
        (("role", "master"), second): 0, (("role", "slave"), second): 1,
    }  # fmt: skip
    assert found["rmq_replication_lag_bytes"] == {
        (("replica", "2"), first): 300, (("replica", "127.0.0.1:4012"), first): 0,
    }  # fmt: skip
    assert found["rmq_in_sync_replicas"] == found["rmq_in_sync_replicas_min"] == {(first,): 2}
    assert found["rmq_master_epoch"] == {(first,): 4, (second,): 4}
    assert "rmq_role" not in parsed(render([sample()]))


def test_rocketmq_names_carry_the_numbers() -> None:
    found = parsed(render([sample()]))
    shard = (("shard", "0"),)
    assert found["rocketmq_broker_permission"] == {shard: 6}
    disk = (*shard, ("storage_medium", "disk"), ("storage_type", "local"))
    assert found["rocketmq_storage_size"] == {disk: 90}
    assert found["rocketmq_storage_flush_behind_bytes"] == {disk: 40}
    assert found["rocketmq_storage_dispatch_behind_bytes"] == {disk: 0}
    odd = (("is_system", "false"), ("shard", "0"), ("topic", 'odd"name\\'))
    kind = (odd[0], ("message_type", "normal"), *odd[1:])
    assert found["rocketmq_messages_in_total"][kind] == 5
    assert found["rocketmq_throughput_out_total"][(("consumer_group", ""), *odd)] == 200
    lag = (
        ("consumer_group", "g"), ("is_retry", "true"), ("is_system", "false"), ("shard", "0"),
        ("topic", "%RETRY%g"),
    )  # fmt: skip
    assert found["rocketmq_consumer_lag_messages"] == {lag: 4}
    java = (("language", "java"), ("protocol_type", "remoting"), *shard, ("version", "v5_3_3"))
    assert found["rocketmq_producer_connections"] == {java: 5}, "of both groups"
    assert list(found["rocketmq_consumer_connections"].values()) == [1]
    assert found["rmq_pool_high_water"] == {(("pool", "reply"), ("shard", "0")): 7}
    assert found["rmq_cpu_seconds_total"] == {shard: 1.5}


# All names of RocketMQ 5.5's broker and store (BrokerMetricsConstant, DefaultStoreMetricsConstant,
# RemotingMetricsConstant), except those for POP, timers and RocksDB.
APACHE = {
    "processor_watermark", "broker_permission", "topic_number", "consumer_group_number",
    "messages_in_total", "messages_out_total", "throughput_in_total", "throughput_out_total",
    "message_size", "topic_create_execution_time", "consumer_group_create_execution_time",
    "producer_connections", "consumer_connections", "consumer_lag_messages",
    "consumer_lag_latency", "consumer_inflight_messages", "consumer_queueing_latency",
    "consumer_ready_messages", "send_to_dlq_messages_total", "commit_messages_total",
    "rollback_messages_total", "finish_message_latency", "half_messages", "storage_size",
    "storage_flush_behind_bytes", "storage_dispatch_behind_bytes",
    "storage_message_reserve_time", "rpc_latency", "delay_message_latency",
}  # fmt: skip
LATER = re.compile("timer_|timing_|pop_")  # tested where they are made
# The names that the exporter of Apache RocketMQ 5.5.0 wrote, where they differ.
EXPORTED = {
    "consumer_lag_latency_milliseconds", "consumer_queueing_latency_milliseconds",
    "storage_size_bytes", "storage_message_reserve_time_milliseconds", "rpc_latency_milliseconds",
    "topic_create_execution_time_milliseconds",
    "consumer_group_create_execution_time_milliseconds", "finish_message_latency_milliseconds",
    "delay_message_latency_seconds",
}  # fmt: skip


def test_which_rmq_it_is_is_a_label() -> None:
    one = sample()
    one.build, one.version = "0.1.0 (4d61e699)", "V5_3_3"
    text = render([one, sample(1)]).decode()
    lines = [line for line in text.splitlines() if line.startswith("rmq_build_info{")]
    assert len(lines) == 1, "one of another version says nothing"
    assert 'version="0.1.0 (4d61e699)",rocketmq_version="V5_3_3"} 1' in lines[0]


def test_names_that_look_like_rocketmqs_are_its_own_and_none_is_missing() -> None:
    families = {
        family.name: family.type
        for family in parser.text_string_to_metric_families(render([sample()]).decode())
    }
    ours = {
        name.removeprefix("rocketmq_") + ("_total" if kind == "counter" else "")
        for name, kind in families.items()
        if name.startswith("rocketmq_")
    }
    assert {name for name in ours - APACHE if not LATER.match(name)} == EXPORTED
    assert APACHE - ours == set()


def test_connections_that_had_no_place_are_told() -> None:
    one = sample()
    one.counters |= {
        "accept_failures": 2, "connections_closed_deaf": 3, "connections_displaced": 4,
    }  # fmt: skip
    found = parsed(render([one]))
    shard = (("shard", "0"),)
    assert found["rmq_accept_failures_total"] == {shard: 2}
    assert found["rmq_connections_closed_deaf_total"] == {shard: 3}
    assert found["rmq_connections_displaced_total"] == {shard: 4}


def test_lags_tell_ages_where_they_are_known() -> None:
    one = sample()
    one.lags = [LagSample("g", "t", 9, 4, 5, 1200, 700), LagSample("h", "t", 3)]
    found = parsed(render([one]))

    def of(name: str) -> list[float]:
        return list(found[f"rocketmq_consumer_{name}"].values())

    assert (of("lag_messages"), of("inflight_messages")) == ([9, 3], [4, 0])
    assert (of("ready_messages"), of("lag_latency"), of("queueing_latency")) == (
        [5, 0], [1200], [700],
    )  # fmt: skip


def test_dead_letters_sizes_and_transactions_are_told() -> None:
    one = sample()
    one.topics.append(TopicSample("%DLQ%g", 3))
    one.sizes = [0] * 32
    one.sizes[8], one.sizes[11], one.sizes[25] = 5, 2, 1  # 128 to 255 bytes, 1 to 2 KiB, 16 MiB
    one.half_messages, one.now_ms, one.oldest_message_ms = 4, 9_000, 2_000
    one.timers_behind = 5
    one.counters |= {"transactions_committed": 6, "bytes_in": 777, "control_waiting": 2}
    one.steps["finish"] = ([0, 4, 0, 0, 0, 0, 1, 0, 0, 0], 90_100)
    found = parsed(render([one]))
    shard = (("shard", "0"),)
    group = (("consumer_group", "g"), ("shard", "0"))
    assert found["rocketmq_send_to_dlq_messages_total"] == {group: 3}
    assert found["rocketmq_half_messages"] == {shard: 4}
    assert list(found["rocketmq_timer_enqueue_lag"].values()) == [5]
    assert found["rocketmq_commit_messages_total"] == {(*shard, ("topic", "")): 6}
    assert list(found["rocketmq_storage_message_reserve_time"].values()) == [7000]
    assert list(found["rocketmq_processor_watermark"].values()) == [2]
    sizes = {dict(k)["le"]: v for k, v in found["rocketmq_message_size_bucket"].items()}
    assert (sizes["128.0"], sizes["256.0"], sizes["1024.0"], sizes["2048.0"]) == (0, 5, 5, 7)
    assert (sizes["4194304.0"], sizes["+Inf"]) == (7, 8)
    assert found["rocketmq_message_size_sum"] == {shard: 777}
    finish = {dict(k)["le"]: v for k, v in found["rocketmq_finish_message_latency_bucket"].items()}
    assert (finish["5.0"], finish["60.0"], finish["86400.0"], finish["+Inf"]) == (0, 4, 4, 5)
    assert found["rocketmq_finish_message_latency_sum"] == {shard: 90_100}


def test_messages_in_are_told_by_their_type_and_out_by_their_group() -> None:
    numbers = [2, 1, 0, 200, 90, 0, 3, 1, 6, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 4000]
    one = sample()
    one.topics = [TopicSample("t", 10, 1000, 9, 900, numbers=numbers), TopicSample("s", 1, 5, 0, 0)]
    one.deliveries = [
        DeliverySample("g", "t", 4, 400),
        DeliverySample("CID_RMQ_SYS_x", "t", 3, 300),
    ]
    one.counters |= {"transactions_committed": 4, "transactions_rolled_back": 1}
    found = parsed(render([one]))

    def of(name: str, label: str, topic: str = "t") -> dict[str, float]:
        rows = found[f"rocketmq_{name}"].items()
        return {dict(k)[label]: v for k, v in rows if dict(k)["topic"] == topic}

    assert of("messages_in_total", "message_type") == {"normal": 7, "fifo": 2, "delay": 1}
    assert of("throughput_in_total", "message_type") == {"normal": 710, "fifo": 200, "delay": 90}
    assert of("messages_in_total", "message_type", "s") == {"normal": 1}
    assert of("messages_out_total", "consumer_group") == {"g": 4, "CID_RMQ_SYS_x": 3, "": 2}
    assert of("throughput_out_total", "consumer_group") == {"g": 400, "CID_RMQ_SYS_x": 300, "": 200}
    assert of("messages_out_total", "consumer_group", "s") == {"": 0}
    assert of("messages_out_total", "is_system")["true"] == 3
    assert of("commit_messages_total", "topic") == {"t": 3}
    assert of("commit_messages_total", "topic", "") == {"": 1}  # of a topic that no longer exists
    assert of("rollback_messages_total", "topic") == {"t": 1}
    assert of("timer_enqueue_total", "topic") == {"t": 7}
    assert of("timer_dequeue_total", "topic") == {"t": 6}
    waits = of("delay_message_latency_bucket", "le")
    assert (waits["60.0"], waits["600.0"], waits["259200.0"], waits["+Inf"]) == (0, 7, 7, 7)


def test_requests_are_timed_by_code_answer_and_whether_they_were_held() -> None:
    one = sample()
    one.rpc = [
        RpcSample(310, 0, False, ([5, 2, 0, 0, 0, 0, 0, 0, 0, 1], 5004)),
        RpcSample(11, 19, True, ([0] * 9 + [3], 45_000)),
        RpcSample(4711, 3, False, ([1] + [0] * 9, 0)),
    ]
    one.created = [
        CreationSample("topic", True, ([1, 2, 0, 0, 0, 0], 80)),
        CreationSample("topic", False, ([1, 0, 0, 0, 0, 0], 0)),
        CreationSample("group", True, ([3, 0, 0, 0, 0, 0], 9)),
    ]
    found = parsed(render([one]))
    counts = {
        tuple(dict(k)[n] for n in ("request_code", "response_code", "is_long_polling")): v
        for k, v in found["rocketmq_rpc_latency_count"].items()
    }
    assert counts == {
        ("send_message_v2", "success", "false"): 8,
        ("pull_message", "pull_not_found", "true"): 3,
        ("4711", "request_code_not_supported", "false"): 1,
    }
    sends = {
        dict(k)["le"]: v
        for k, v in found["rocketmq_rpc_latency_bucket"].items()
        if dict(k)["request_code"] == "send_message_v2"
    }
    assert (sends["1.0"], sends["3.0"], sends["3000.0"], sends["+Inf"]) == (5, 7, 7, 8)
    topics = found["rocketmq_topic_create_execution_time_count"]
    assert {dict(k)["invocation_status"]: v for k, v in topics.items()} == {
        "success": 3, "failure": 1,
    }  # fmt: skip
    assert list(found["rocketmq_consumer_group_create_execution_time_sum"].values()) == [9]
    for name, second in (
        ("rocketmq_rpc_latency", "rocketmq_rpc_latency_milliseconds"),
        ("rocketmq_storage_size", "rocketmq_storage_size_bytes"),
    ):
        for end in ("", "_bucket", "_sum", "_count"):
            assert found.get(name + end) == found.get(second + end)


def test_histogram_buckets_add_up() -> None:
    found = parsed(render([sample()]))
    buckets = {
        dict(key)["le"]: value for key, value in found["rmq_append_latency_seconds_bucket"].items()
    }
    assert buckets["0.000008"] == 2
    assert buckets["0.000512"] == 2
    assert buckets["0.001024"] == 5
    assert buckets["+Inf"] == 6
    values = list(buckets.values())
    assert values == sorted(values)
    assert found["rmq_append_latency_seconds_count"] == {(("shard", "0"),): 6}
    assert found["rmq_append_latency_seconds_sum"] == {(("shard", "0"),): 0.005}


def test_every_shard_has_its_own_series() -> None:
    found = parsed(render([sample(0), sample(1)]))
    assert set(found["rmq_turns_total"]) == {(("shard", "0"),), (("shard", "1"),)}
    for name in ("rocketmq_messages_in_total", "rmq_append_latency_seconds_count"):
        assert len(found[name]) == 2 * len(parsed(render([sample()]))[name])


def test_what_a_shard_does_not_know_is_left_out() -> None:
    found = parsed(render([Sample(cluster="C", broker="b")]))
    for name in ("rocketmq_storage_size", "rmq_page_cache_dirty_bytes", "rmq_disk_used_ratio"):
        assert name not in found
    assert found["rmq_turns_total"] == {(("shard", "0"),): 0}


def test_help_text_cannot_break_a_line() -> None:
    out = Exposition()
    out.family("m", "gauge", "one\ntwo")
    out.value("m", {"l": "a\nb"}, 1)
    assert out.text() == b'# HELP m one\\ntwo\n# TYPE m gauge\nm{l="a\\nb"} 1\n'


def test_a_sample_survives_its_journey() -> None:
    assert decode(encode(sample(1))) == sample(1)


def test_a_sample_of_another_version_is_read_as_far_as_it_is_known() -> None:
    assert decode(b'{"broker":"x","news":[1]}') == Sample(broker="x")
    with pytest.raises(ValueError):
        decode(b'{"broker":7}')
