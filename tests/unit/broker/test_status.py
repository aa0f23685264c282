"""Samples of a shard, and the verdicts of /healthz and /readyz, on an in-memory core."""

import json
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.siblings import Siblings
from rmq.broker.status import consumer_lag
from rmq.broker.status.http_server import StatusServer
from rmq.codes import VERSION, VERSION_QUOTED_KEYS, VERSION_TEXT, version_name
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.observe.sample import Sample, decode, encode
from rmq.system.threads import Thread


@in_loop
async def test_a_sample_holds_topics_lags_and_clients(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        await core.client().call(17, topic="t", readQueueNums=2, writeQueueNums=2, perm=6)
        for queue_id in (0, 0, 0, 1):
            core.store("t", queue_id, store_timestamp_ms=77)
        core.commit_offset(b"g", b"t", 0, 1)
        core.commit_offset(b"g", b"t", 7, 1)  # a queue that no longer exists
        core.commit_offset(b"g", b"gone", 0, 1)
        core.counters["turns"] = 9
        sample = broker.sampler.take()
        assert sample.broker == "broker-a"
        assert sample.counters["turns"] == 9
        assert sample.oldest_message_ms == 77
        assert [(row.group, row.topic, row.messages) for row in sample.lags] == [("g", "t", 2)]
        assert sample.lag == 2
        assert [row.name for row in sample.topics if not row.is_system] == ["t"]
        assert (sample.topics[-1].messages_in, sample.topics[-1].end) == (4, 4)
        assert sample.rss_bytes > 1 << 20 and sample.open_files > 2 and sample.threads >= 1
        assert sample.page_cache == (4096, 0, 8192)


@in_loop
async def test_more_topics_than_the_limit_are_counted(tmp_path: Path) -> None:
    async with control(tmp_path, metricsOtelCardinalityLimit="2") as broker:
        for number in range(5):
            name = f"t{number}"
            await broker.core.client().call(
                17, topic=name, readQueueNums=1, writeQueueNums=1, perm=6
            )
        sample = broker.sampler.take()
        assert len(sample.topics) == 2
        assert sample.left_out == 3


def beat(client_id: str, *groups: str) -> bytes:
    """The heartbeat of a producer that is in each of these groups."""
    return fastjson.dumps(
        {"clientID": client_id, "consumerDataSet": [],
         "producerDataSet": [{"groupName": group} for group in groups]}
    )  # fmt: skip


@in_loop
async def test_producers_groups_are_bounded_and_no_connection_is_missing(tmp_path: Path) -> None:
    async with control(tmp_path, metricsOtelCardinalityLimit="2") as broker:
        for number in range(3):
            client = broker.core.client(version=513)
            groups = [f"p{number}", "CLIENT_INNER_PRODUCER"]
            assert (await client.call(34, beat(f"c{number}", *groups))).code == 0
        sample = broker.sampler.take()
        assert [(row.group, row.version, row.count) for row in sample.producers] == [
            ("CLIENT_INNER_PRODUCER", "v5_5_0", 3), ("p0", "v5_5_0", 1), ("", "v5_5_0", 2),
        ]  # fmt: skip
        assert sample.left_out == 2


def test_versions_have_the_names_of_rocketmqs_list() -> None:
    """The first and last name of each part of RocketMQ's list must be right, as in MQVersion of
    RocketMQ 5.5."""
    names = {
        0: "v3_0_0_snapshot", 6: "v3_0_0_beta5", 7: "v3_0_0_beta6_snapshot", 15: "v3_0_0_final",
        16: "v3_0_1_snapshot", 45: "v3_0_15", 86: "v3_3_1_snapshot", 211: "v3_9_9",
        232: "v4_1_0_snapshot", VERSION_QUOTED_KEYS: "v4_9_4", VERSION: VERSION_TEXT.lower(),
        513: "v5_5_0", 611: "v5_9_9", 612: "higher_version", 2**31 - 1: "higher_version",
    }  # fmt: skip
    assert {number: version_name(number) for number in names} == names
    assert version_name(-1) == "unknown"


@in_loop
async def test_lags_whose_ages_there_is_no_time_for_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        core = broker.core
        await core.client().call(17, topic="t", readQueueNums=1, writeQueueNums=1, perm=6)
        core.store("t", 0, store_timestamp_ms=77)
        core.commit_offset(b"g", b"t", 0, 0)
        sample = await broker.sampler.take_all()
        assert (sample.lags[0].latency_ms > 0, sample.lags_without_age) == (True, 0)
        core.store("t", 0, store_timestamp_ms=78)
        core.commit_offset(b"g", b"t", 0, 1)
        monkeypatch.setattr(consumer_lag, "TIMES_MAX", 0)
        sample = await broker.sampler.take_all()
        assert (sample.lags[0].latency_ms, sample.lags_without_age) == (-1, 1)


@in_loop
async def test_the_detail_comes_only_when_asked_for(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        assert "rmqSample" not in json.loads((await client.call(28)).body)["table"]
        table = json.loads((await client.call(28, rmqDetail="true")).body)["table"]
        assert decode(table["rmqSample"]).broker == "broker-a"


@in_loop
async def test_a_poisoned_or_stuck_shard_is_ill(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        server = StatusServer(broker)
        assert (await server.health()).status == 200
        broker.core.counters["poisoned"] = 1
        answer = await server.health()
        assert answer.status == 503 and b"poisoned" in answer.body
        assert broker.sampler.take().state == "poisoned"
        broker.core.counters["poisoned"] = 0
        broker.reactor_watch.stop()  # the test takes the looks itself
        thread = Thread("D")
        watch = broker.reactor_watch = ReactorWatch(broker.core.reactor_turn, 7, lambda: thread)
        broker.core.stands = True
        while not watch.is_slow:
            watch.look()
        answer = await server.ready()
        assert answer.status == 503 and b"no turn for 5 s" in answer.body
        assert (await server.health()).status == 200  # healthy: the reactor may go on
        text = (await server.own_metrics()).body.decode()  # does not wait for the reactor
        assert "rmq_reactor_standing_seconds{" in text and broker.sampler.take().lag == 0
        while not watch.is_out:
            watch.look()
        # Healthy: it waits for a disk, as a new process would.
        assert (await server.health()).status == 200
        thread = Thread("S")
        while not watch.is_stuck:
            watch.look()
        answer = await server.health()
        assert answer.status == 503 and b"no turn for 14 s" in answer.body
        broker.core.stands = False


@in_loop
async def test_a_shard_is_ready_when_it_takes_writes_and_is_registered(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        server = StatusServer(broker)
        assert (await server.ready()).status == 200  # it has no name server where it must be known
        broker.core.counters["writable"] = 0
        answer = await server.ready()
        assert answer.status == 503 and b"disk is too full" in answer.body
        assert broker.sampler.take().state == "full"
        broker.core.counters["writable"] = 1
        broker.registration._members["127.0.0.1:1"] = object()
        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(broker.registration, "registered", list)
        answer = await server.ready()
        assert answer.status == 503 and b"name server" in answer.body
        monkeypatch.undo()
        del broker.registration._members["127.0.0.1:1"]


class TwoOthers(Siblings):
    """The siblings of shard 1 of 3: one of the two others answers nonsense."""

    index = 1

    async def ask(self, command: Command) -> list[Command]:
        assert (command.code, command.fields) == (28, {"rmqDetail": "true"})
        told = encode(Sample(cluster="C", broker="b", shard=0, counters={"turns": 77})).decode()
        return [
            Command(code=0, body=json.dumps({"table": {"rmqSample": told}}).encode()),
            Command(code=0, body=b'{"table":{"rmqSample":"7"}}'),
            Command(code=1, body=b""),
        ]


@in_loop
async def test_any_shard_tells_of_all_that_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path) as broker:
        broker.join(TwoOthers())
        broker.core.counters["turns"] = 5
        server = StatusServer(broker)
        lines = (await server.metrics()).body.decode().splitlines()
        turns = [line for line in lines if line.startswith("rmq_turns_total")]
        assert [line.rpartition("shard=")[2] for line in turns] == ['"0"} 77', '"1"} 5']
        assert caplog.text.count("numbers cannot be read") == 2
        own = (await server.own_metrics()).body.decode()
        assert 'shard="1"} 5' in own and 'shard="0"' not in own


# What RMQMetricsCollector of apache/rocketmq-exporter (e1ab2dd) shows of a runtime table.
RUNTIME_NAMES = """
commitlog_disk_ratio commitlog_maxoffset commitlog_minoffset commitlogdir_capacity_free
commitlogdir_capacity_total consumequeue_disk_ratio dispatch_behind_bytes dispatch_maxbuffer
earliest_message_timestamp getfound_tps10 getfound_tps60 getfound_tps600
getmessage_entire_time_max getmiss_tps10 getmiss_tps60 getmiss_tps600 gettotal_tps10
gettotal_tps60 gettotal_tps600 gettransfered_tps10 gettransfered_tps60 gettransfered_tps600
msg_gettotal_today_now msg_gettotal_todaymorning msg_gettotal_yesterdaymorning
msg_put_total_today_now msg_puttotal_todaymorning msg_puttotal_yesterdaymorning
pagecache_lock_time_mills pmdt_0ms pmdt_0to10ms pmdt_100to200ms pmdt_10stomore pmdt_10to50ms
pmdt_1to2s pmdt_200to500ms pmdt_2to3s pmdt_3to4s pmdt_4to5s pmdt_500to1s pmdt_50to100ms
pmdt_5to10s pull_threadpoolqueue_capacity pull_threadpoolqueue_headwait_timemills
pull_threadpoolqueue_size put_latency_99 put_latency_999 put_message_average_size
put_message_size_total put_tps10 put_tps60 put_tps600 putmessage_entire_time_max
putmessage_times_total query_threadpool_queue_capacity query_threadpoolqueue_headwait_timemills
query_threadpoolqueue_size remain_howmanydata_toflush remain_transientstore_buffer_numbs
send_threadpool_queue_size send_threadpoolqueue_capacity send_threadpoolqueue_headwait_timemills
start_accept_sendrequest_time
"""


@in_loop
async def test_whose_names_metrics_have_is_a_setting(tmp_path: Path) -> None:
    async with control(tmp_path, rmqMetricsNames="exporter") as broker:
        broker.join(TwoOthers())
        server = StatusServer(broker)
        client = broker.core.client()

        async def told() -> set[str]:
            text = (await server.own_metrics()).body.decode()
            return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}

        exporters = await told()
        assert "rocketmq_broker_tps" in exporters
        runtime = {name for name in exporters if name.startswith("rocketmq_brokeruntime_")}
        assert runtime == {f"rocketmq_brokeruntime_{name}" for name in RUNTIME_NAMES.split()}
        for names in ("both", "rmq"):
            changed = f"rmqMetricsNames={names}\n".encode()
            assert (await client.call(25, changed)).code == 0
            rocketmqs = await told()
            assert "rocketmq_messages_in_total" in rocketmqs - exporters
            assert (exporters <= rocketmqs) == (names == "both")
        text = (await server.metrics()).body.decode()
        assert "rocketmq_broker_tps" not in text
        assert not server._minute._kept, "nobody asks for rates any more"


@in_loop
async def test_shards_that_tell_no_table_are_shown_without_it(tmp_path: Path) -> None:
    async with control(tmp_path, rmqMetricsNames="exporter") as broker:
        broker.join(TwoOthers())
        text = (await StatusServer(broker).metrics()).body.decode()
        rows = [line for line in text.splitlines() if line.startswith("rocketmq_broker_tps{")]
        assert [line.count('broker="broker-a"') for line in rows] == [1]


@in_loop
async def test_a_taken_port_does_not_stop_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path, metricsExporterType="PROM", metricsPromExporterPort="0") as one:
        assert one.status is not None
        port = str(one.status._port._server.port)
        async with control(
            tmp_path / "2", metricsExporterType="2", metricsPromExporterPort=port
        ) as two:
            assert "no metrics: cannot listen" in caplog.text
            assert two.sampler.take().broker == "broker-a"
