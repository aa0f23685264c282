"""mqadmin 5.5.0 on groups and their offsets, on messages and traces, and commands that are rarely
used. docs/mqadmin.md lists all commands, and test_mqadmin_rest.py checks that this list is
complete. Each test runs twice, like those of test_mqadmin.py."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from compat.live_groups import ScenarioGroup
from compat.mqadmin import BROKER, CLUSTER, Admin, Live, eventually, fields, make_topic
from compat.mqadmin_ways import (
    admin_by_way,
    authority,
    go_by_way,
    java_by_way,
    live_by_way,
    target_by_way,
)
from compat.runner import ScenarioRunner
from compat.targets import Target

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode

__all__ = [
    "admin_by_way", "authority", "go_by_way", "java_by_way", "live_by_way", "target_by_way",
]  # fmt: skip
NEWEST = "java-5.5.0-json"


def counts(java: Callable[[str], ScenarioRunner], target: Target, run: str, name: str,
           **arguments: object) -> dict[int, int]:  # fmt: skip
    """How often each message came to the live consumer."""
    answer = java("java-5.5.0-json").run(
        "live_counts", nameServer=target.name_server, run=run, **{"as": name}, **arguments
    )
    pairs = [pair.split(":") for pair in str(answer["counts"]).split()]
    return {int(number): int(times) for number, times in pairs}


def wait_until_consumed(admin: Admin, group: str) -> None:
    """Waits until the group has committed the ends of its queues."""
    eventually(admin, ["consumerProgress", "-g", group], "Consume Diff Total: 0", 30)


def test_offsets_go_back_to_a_moment_and_the_consumer_with_them(
    admin: Admin, target: Target, java: Callable[[str], ScenarioRunner], session_id: str
) -> None:
    for client in ("java-5.5.0-json", "java-4.9.8-json"):
        name = f"reset{client[5]}"
        live = ScenarioGroup(java(client), target, session_id, name)
        try:
            live.send(40)
            time.sleep(1.2)
            moment = int(time.time() * 1000)
            time.sleep(0.2)
            live.send(40)
            wait_until_consumed(admin, live.group)
            output = admin(
                "resetOffsetByTime", "-g", live.group, "-t", live.topic, "-s", str(moment)
            )
            rows = [line.split() for line in output.splitlines() if line.startswith(BROKER)]
            assert sorted(row[1:] for row in rows) == [[str(q), "10"] for q in range(4)], output
            found = live.counts(least=2, first=40, seconds=60)
            assert found == {**dict.fromkeys(range(40), 1), **dict.fromkeys(range(40, 80), 2)}
            wait_until_consumed(admin, live.group)
            live.send(4)
        finally:
            live.close()


def test_one_queue_goes_to_an_offset(
    admin: Admin, target: Target, java: Callable[[str], ScenarioRunner], session_id: str
) -> None:
    live = ScenarioGroup(java(NEWEST), target, session_id, "resetone")
    try:
        live.send(40)
        wait_until_consumed(admin, live.group)
        words = ["-b", target.broker, "-q", "2", "-s", "0", "-o", "7"]
        output = admin("resetOffsetByTime", "-g", live.group, "-t", live.topic, *words)
        assert "reset consumer offset to 7" in output
        again = [n for n in range(40) if n % 4 == 2 and n // 4 >= 7]
        end = time.monotonic() + 60
        while True:
            found = live.counts()
            if all(found[number] == 2 for number in again) or time.monotonic() > end:
                break
        assert found == {n: 2 if n in again else 1 for n in range(40)}
    finally:
        live.close()


def test_accumulated_messages_are_skipped(
    admin: Admin, target: Target, java: Callable[[str], ScenarioRunner], session_id: str
) -> None:
    live = ScenarioGroup(java(NEWEST), target, session_id, "skip")
    live.send(40)
    wait_until_consumed(admin, live.group)
    live.close()
    for number in range(12):
        admin("sendMessage", "-t", live.topic, "-p", f"more {number}")
    progress = eventually(admin, ["consumerProgress", "-g", live.group], "Consume Diff Total: 12")
    assert live.topic in progress
    output = admin("skipAccumulatedMessage", "-g", live.group, "-t", live.topic)
    rows = [line.split() for line in output.splitlines() if line.startswith(BROKER)]
    assert sum(int(row[2]) for row in rows) == 52, output
    progress = admin("consumerProgress", "-g", live.group)
    assert "Consume Diff Total: 0" in progress


def test_a_group_takes_over_anothers_offsets(
    admin: Admin, target: Target, live: Live, session_id: str
) -> None:
    wait_until_consumed(admin, live.consumer_group)
    target_group = f"g_{session_id}_cloned"
    assert "success" in admin("updateSubGroup", "-b", target.broker, "-g", target_group)
    output = admin(
        "cloneGroupOffset", "-s", live.consumer_group, "-d", target_group, "-t", live.topic
    )
    assert "clone group offset success" in output, output
    with Cluster(target.name_server) as cluster:
        for queue in range(4):
            asked = {"consumerGroup": target_group, "topic": live.topic, "queueId": queue}
            reply = cluster.connect(target.broker).call(RequestCode.QUERY_CONSUMER_OFFSET, asked)
            assert reply.fields["offset"] == "10"


def test_a_consumer_tells_about_itself(admin: Admin, live: Live) -> None:
    listed = admin("consumerStatus", "-g", live.consumer_group)
    assert re.search(r"^1 +\S+@\S+ +V5_5_0 +\S+", listed, re.MULTILINE), listed
    client_id = re.search(r"^1 +(\S+)", listed, re.MULTILINE)
    assert client_id is not None
    Path(client_id[1]).unlink(missing_ok=True)
    shown = admin("consumerStatus", "-g", live.consumer_group, "-i", client_id[1], "-s")
    assert "#Consumer Properties#" in shown
    assert re.search(rf"Topic: {live.topic} +ClassFilter: false +SubExpression: \*", shown)
    assert re.search(rf"^{live.topic} +{BROKER} +0 +10 ", shown, re.MULTILINE)
    assert "#Consumer jstack#" in shown


def test_a_message_is_consumed_again_by_the_client_that_is_asked(
    admin: Admin, live: Live, java: Callable[[str], ScenarioRunner], target: Target, session_id: str
) -> None:
    before = counts(java, target, session_id, "adminlive")[39]
    listed = admin("consumerConnection", "-g", live.consumer_group)
    client_id = re.search(r"^(\S+@\S+) +127\.0\.0\.1", listed, re.MULTILINE)
    assert client_id is not None
    words = ["-g", live.consumer_group, "-d", client_id[1], "-t", live.topic]
    output = admin("queryMsgById", "-i", live.last_message_id, *words)
    assert "consumeResult=CR_SUCCESS" in output, output
    assert counts(java, target, session_id, "adminlive")[39] == before + 1
    output = admin("queryMsgById", "-i", live.last_message_id, "-g", live.consumer_group,
                   "-d", "nobody@1", "-t", live.topic)  # fmt: skip
    assert "CODE: 1 " in output or "not online" in output


def test_consumption_is_shown_by_queue_and_client(admin: Admin, target: Target, live: Live) -> None:
    queue = admin("queryCq", "-t", live.topic, "-q", "1", "-i", "0", "-c", "3", "-b", target.broker,
                  "-g", live.consumer_group)  # fmt: skip
    assert "max: 10, min: 0" in queue
    assert queue.count('"physicOffset"') == 3 or queue.count("physicOffset") >= 3
    producers = admin("producer", "-b", target.broker)
    assert f"producer group ({live.producer_group})" in producers
    stats = admin("statsAll", "-t", live.topic)
    assert re.search(rf"^{live.topic} +{live.consumer_group} +0 ", stats, re.MULTILINE)


def test_groups_and_topics_are_made_from_lists(
    admin: Admin, target: Target, session_id: str, tmp_path: Path
) -> None:
    groups = [{"groupName": f"g_{session_id}_list{n}", "retryMaxTimes": 4 + n} for n in range(2)]
    (tmp_path / "groups.json").write_text(json.dumps(groups))
    output = admin("updateSubGroupList", "-b", target.broker, "-f", str(tmp_path / "groups.json"))
    assert "success" in output, output
    shown = fields(admin("getConsumerConfig", "-g", f"g_{session_id}_list1"), "=")
    assert shown["retryMaxTimes"] == "5"
    topics = [
        {"topicName": f"{session_id}_list{n}", "readQueueNums": 2 + n, "writeQueueNums": 2 + n}
        for n in range(2)
    ]
    (tmp_path / "topics.json").write_text(json.dumps(topics))
    output = admin("updateTopicList", "-b", target.broker, "-f", str(tmp_path / "topics.json"))
    assert "success" in output, output
    eventually(admin, ["topicRoute", "-t", f"{session_id}_list1"], '"writeQueueNums":3')


def test_a_groups_retry_policy_is_kept(admin: Admin, target: Target, session_id: str) -> None:
    policy = '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":2000,"max":9000,' \
             '"multiplier":2}}'  # fmt: skip
    output = admin(
        "updateSubGroup", "-b", target.broker, "-g", f"g_{session_id}_policy", "-p", policy
    )
    assert f"create subscription group to {target.broker} success." in output
    shown = admin("getConsumerConfig", "-g", f"g_{session_id}_policy")
    assert "initial=2000" in shown and "multiplier=2" in shown, shown


def test_the_order_of_a_topic_is_configured(admin: Admin, target: Target, session_id: str) -> None:
    topic = f"{session_id}_adm_order"
    make_topic(admin, target, topic, 2)
    put = admin("updateOrderConf", "-t", topic, "-m", "put", "-v", f"{BROKER}:2")
    assert "update orderConf success" in put
    shown = admin("updateOrderConf", "-t", topic, "-m", "get")
    assert f"orderConf=[{BROKER}:2]" in shown
    assert "delete orderConf success" in admin("updateOrderConf", "-t", topic, "-m", "delete")


def test_a_group_is_deleted_with_its_offsets(
    admin: Admin, target: Target, java: Callable[[str], ScenarioRunner], session_id: str
) -> None:
    live = ScenarioGroup(java(NEWEST), target, session_id, "gone")
    live.send(8)
    wait_until_consumed(admin, live.group)
    live.close()
    words = ["-b", target.broker, "-g", live.group, "-r", "true"]
    assert "success" in admin("deleteSubGroup", *words)
    progress = admin("consumerProgress", "-g", live.group)
    rows = [line for line in progress.splitlines() if line.startswith(live.topic)]
    assert rows == [], progress


def test_traces_are_found_by_message_id(
    admin: Admin,
    target: Target,
    java: Callable[[str], ScenarioRunner],
    go: ScenarioRunner,
    session_id: str,
) -> None:
    from click.testing import CliRunner

    from rmq.cli.main import cli

    for client in ("java-5.5.0-json", "java-4.9.8-json", "go"):
        run = f"{session_id}_{client[5:6] or client}"
        runner = go if client == "go" else java(client)
        traced = runner.run("trace_send_and_consume", nameServer=target.name_server,
                            broker=target.broker, run=run)  # fmt: skip
        message = str(traced["id1"])  # the message that failed once
        output = eventually(admin, ["queryMsgTraceById", "-i", message], traced["consumerGroup"])
        assert re.search(rf"^Pub +{traced['producerGroup'][:10]}", output, re.MULTILINE), output
        assert output.count("Sub") >= 2, output
        asked = ["trace", message, "--namesrv", target.name_server, "--json"]
        end = time.monotonic() + 20
        while True:
            shown = CliRunner().invoke(cli, asked)
            records = json.loads(shown.output) if shown.exit_code == 0 else []
            if len(records) == 3 or time.monotonic() > end:
                break
            time.sleep(0.3)
        # The time of a record of Go's consumer is that of its end.
        records.sort(key=lambda record: record["kind"] != "Pub")
        assert [record["kind"] for record in records] == ["Pub", "SubAfter", "SubAfter"], records
        sent, first, second = records
        assert sent["group"] == traced["producerGroup"]
        assert (sent["topic"], sent["keys"], sent["tags"]) == (traced["topic"], "k1", "tag")
        assert (sent["success"], sent["offset_id"]) == (True, traced["offsetId1"])
        assert first["group"] == second["group"] == traced["consumerGroup"]
        assert (first["success"], second["success"]) == (False, True)
        assert second["retries"] == 1
        assert first["client_host"] == "127.0.0.1"
        text = CliRunner().invoke(cli, asked[:-1]).output
        assert re.search(rf"^sent +\S+ \S+ +{traced['producerGroup']}", text, re.MULTILINE), text
        assert text.count("consumed") == 2


def test_sends_are_measured(admin: Admin, target: Target, session_id: str) -> None:
    # A topic of its own, because other tests count the messages of the shared topic.
    topic = f"{session_id}_adm_rt"
    make_topic(admin, target, topic, 4)
    checked = admin("checkMsgSendRT", "-t", topic, "-a", "4", "-s", "16")
    assert re.search(r"Avg RT: +\d+\.\d+", checked), checked
    status = admin("sendMsgStatus", "-b", BROKER, "-s", "16", "-c", "2")
    assert status.count("SEND_OK") >= 1, status


def test_what_is_expired_or_unused_is_cleaned(admin: Admin, target: Target) -> None:
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert "success" in admin(command, "-b", target.broker), command


def test_settings_of_the_name_server_are_changed(admin: Admin, target: Target) -> None:
    words = ["-k", "orderMessageEnable", "-v", "false", "-n", target.name_server]
    assert "success" in admin("updateNamesrvConfig", *words)


def test_how_a_group_asks_for_messages_is_set(
    admin: Admin, target: Target, live: Live, session_id: str
) -> None:
    output = admin("setConsumeMode", "-b", target.broker, "-t", live.topic,
                   "-g", f"g_{session_id}_mode", "-m", "PULL", "-q", "0")  # fmt: skip
    assert f"set consume mode to {target.broker} success." in output


def test_the_cluster_is_exported(admin: Admin, target: Target, live: Live, tmp_path: Path) -> None:
    output = admin("exportMetadata", "-c", CLUSTER, "-f", str(tmp_path))
    assert "success" in output, output
    exported = json.loads((tmp_path / "metadata.json").read_text())
    assert live.topic in exported["topicConfigTable"]
    assert live.consumer_group in exported["subscriptionGroupTable"]
    output = admin("exportMetadata", "-b", target.broker, "-t", "-f", str(tmp_path))
    assert "success" in output, output
    assert live.topic in (tmp_path / "topic.json").read_text()
    output = admin("exportConfigs", "-c", CLUSTER, "-f", str(tmp_path))
    assert "success" in output, output
    configs = (tmp_path / "configs.json").read_text()
    assert '"namesrvSize":1' in configs and '"maxMessageSize":"4194304"' in configs
    output = admin("exportMetrics", "-c", CLUSTER, "-f", str(tmp_path))
    assert "success" in output, output
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert BROKER in json.dumps(metrics)


def test_a_master_without_slaves_says_so(admin: Admin, target: Target) -> None:
    output = admin("haStatus", "-b", target.broker)
    assert re.search(rf"#MasterAddr\s+{target.broker}", output), output
    assert re.search(r"#SlaveNum\s+0", output)
    assert re.search(r"#MasterCommitLogMaxOffset\s+[1-9]\d*", output)


def test_a_groups_time_span_and_status_are_told(
    admin: Admin, java: Callable[[str], ScenarioRunner], target: Target, live: Live
) -> None:
    def ask(method: str, *words: object) -> dict[str, str]:
        arguments = {f"a{index}": word for index, word in enumerate(words)}
        answer = java("java-5.5.0-json").run(
            "admin_call", nameServer=target.name_server, method=method, **arguments
        )
        assert "failure" not in answer, answer
        return {name: str(value) for name, value in answer.items()}

    wait_until_consumed(admin, live.consumer_group)
    rows = [line.split() for line in admin("topicStatus", "-t", live.topic).splitlines()]
    ends = {row[1]: row[3] for row in rows if row[:1] == [BROKER]}
    assert len(ends) == 4, rows
    spans = ask("queryConsumeTimeSpan", live.topic, live.consumer_group)["result"]
    found = re.findall(rf"topic={live.topic}, brokerName={BROKER}, queueId=(\d+)\]"
                       r" (\d+) (\d+) (\d+) (\d+)", spans)  # fmt: skip
    assert [row[0] for row in sorted(found)] == ["0", "1", "2", "3"], spans
    for _, first, last, consumed, delay in found:
        assert 0 < int(first) <= int(last)
        assert (consumed, delay) == (last, "0")
    status = ask("getConsumeStatus", live.topic, live.consumer_group, "null")["result"]
    told = re.findall(rf"topic={live.topic}, brokerName={BROKER}, queueId=(\d+)\]=(\d+)", status)
    assert dict(told) == ends, status
