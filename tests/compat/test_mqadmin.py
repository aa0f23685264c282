"""mqadmin 5.5.0, unchanged: what its commands show and change.

All commands run in one JVM (scenario "mqadmin"), one after the other; the text that they print is
compared. A producer and a push consumer stay connected meanwhile (scenario "live_open"). Each test
runs twice: without and with accounts and TLS (mqadmin_ways.py).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from compat.mqadmin import BROKER, CLUSTER, Admin, Live, eventually, fields, make_topic
from compat.mqadmin_ways import (
    admin_by_way,
    authority,
    go_by_way,
    java_by_way,
    live_by_way,
    target_by_way,
)
from compat.targets import Target

__all__ = [
    "admin_by_way", "authority", "go_by_way", "java_by_way", "live_by_way", "target_by_way",
]  # fmt: skip


def test_cluster_list_shows_the_broker(admin: Admin, target: Target) -> None:
    rows = [line.split() for line in admin("clusterList").splitlines() if line.startswith(CLUSTER)]
    assert len(rows) == 1
    name, broker, number, address, version, *rest = rows[0]
    assert (name, broker, number, address) == (CLUSTER, BROKER, "0", target.broker)
    assert re.fullmatch(r"V\d_\d+_\d+", version)
    assert rest[-1] == "true", "activated"


def test_broker_status_has_the_keys_people_watch(admin: Admin, target: Target, live: Live) -> None:
    table = fields(admin("brokerStatus", "-b", target.broker), ":")
    assert re.fullmatch(r"V\d_\d+_\d+", table["brokerVersionDesc"])
    assert table["brokerActive"] == "true"
    assert int(table["msgPutTotalTodayNow"]) >= 40
    assert int(table["msgGetTotalTodayNow"]) >= 40
    assert int(table["commitLogMaxOffset"]) > 40 * 91
    assert int(table["commitLogMinOffset"]) == 0
    assert int(table["bootTimestamp"]) <= time.time() * 1000
    assert 0 < int(table["earliestMessageTimeStamp"]) <= time.time() * 1000
    assert 0.0 <= float(table["commitLogDiskRatio"]) <= 1.0
    for name in """
        putTps getFoundTps getMissTps getTotalTps getTransferredTps msgPutTotalTodayMorning
        msgGetTotalTodayMorning msgPutTotalYesterdayMorning msgGetTotalYesterdayMorning
        sendThreadPoolQueueSize pullThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills
        pullThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills dispatchBehindBytes
        putMessageAverageSize putMessageEntireTimeMax remainHowManyDataToFlush runtime
        consumeQueueDiskRatio commitLogDirCapacity startAcceptSendRequestTimeStamp timerReadBehind
        timerOffsetBehind timerCongestNum timerEnqueueTps timerDequeueTps
    """.split():
        assert name in table


def test_topic_list_shows_user_and_system_topics(admin: Admin, live: Live) -> None:
    topics = set(admin("topicList").split())
    assert {
        live.topic,
        "TBW102",
        "SELF_TEST_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        CLUSTER,
        BROKER,
    } <= topics
    assert f"%RETRY%{live.consumer_group}" in topics
    rows = [line.split() for line in admin("topicList", "-c").splitlines()]
    assert [CLUSTER, live.topic, live.consumer_group] in rows


def test_topic_route_and_status_show_queues(admin: Admin, target: Target, live: Live) -> None:
    route = admin("topicRoute", "-t", live.topic)
    assert re.search(rf'"?0"?:"{target.broker}"', route)
    for text in (
        f'"brokerName":"{BROKER}"',
        f'"cluster":"{CLUSTER}"',
        '"perm":6',
        '"readQueueNums":4',
    ):
        assert text in route
    rows = [line.split() for line in admin("topicStatus", "-t", live.topic).splitlines()]
    shown = sorted(row[:4] for row in rows if row[:1] == [BROKER])
    assert shown == [[BROKER, str(queue), "0", "10"] for queue in range(4)]
    assert "CODE: 17" in admin("topicRoute", "-t", "absent_topic")


def test_topics_are_created_changed_and_deleted(
    admin: Admin, target: Target, session_id: str
) -> None:
    topic = f"{session_id}_adm_topic"
    make_topic(admin, target, topic, 3)
    # First fewer writable than readable queues, then read only, then writable again.
    changed = admin(
        "updateTopic", "-b", target.broker, "-t", topic, "-r", "5", "-w", "4", "-p", "4"
    )
    assert "readQueueNums=5, writeQueueNums=4, perm=R--" in changed
    route = eventually(admin, ["topicRoute", "-t", topic], '"writeQueueNums":4')
    assert '"perm":4' in route
    assert '"readQueueNums":5' in route
    permitted = admin("updateTopicPerm", "-b", target.broker, "-t", topic, "-p", "6")
    assert "update topic perm from 4 to 6" in permitted
    eventually(admin, ["topicRoute", "-t", topic], '"perm":6')
    deleted = admin("deleteTopic", "-c", CLUSTER, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{CLUSTER}] success." in deleted
    assert f"delete topic [{topic}] from NameServer success." in deleted
    eventually(admin, ["topicRoute", "-t", topic], "CODE: 17")
    assert topic not in admin("topicList").split()
    by_cluster = admin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    assert f"create topic to {target.broker} success." in by_cluster


def test_a_bad_topic_name_is_refused(admin: Admin, target: Target) -> None:
    output = admin("updateTopic", "-b", target.broker, "-t", "bad.name", "-r", "1", "-w", "1")
    assert "success" not in output
    output = admin("updateTopic", "-b", target.broker, "-t", "SCHEDULE_TOPIC_XXXX", "-r", "1")
    assert "success" not in output


def test_subscription_groups_are_created_shown_and_deleted(
    admin: Admin, target: Target, session_id: str
) -> None:
    group = f"{session_id}_adm_group"
    words = ["-g", group, "-s", "true", "-d", "false", "-r", "3", "-q", "2"]
    output = admin("updateSubGroup", "-b", target.broker, *words)
    assert f"create subscription group to {target.broker} success." in output
    table = fields(admin("getConsumerConfig", "-g", group), "=")
    assert table["groupName"] == group
    assert table["consumeEnable"] == "true"
    assert table["consumeBroadcastEnable"] == "false"
    assert table["retryMaxTimes"] == "3"
    assert table["retryQueueNums"] == "2"
    output = admin("deleteSubGroup", "-b", target.broker, "-g", group)
    assert f"delete subscription group [{group}] from broker [{target.broker}] success." in output
    # When somebody asks for the group, Apache makes it again with defaults.
    table = fields(admin("getConsumerConfig", "-g", group), "=")
    assert table.get("retryMaxTimes", "16") == "16"


def test_consumer_progress_shows_no_lag(admin: Admin, live: Live) -> None:
    # Java's consumer commits for the first time ten seconds after its start.
    committed = rf"(?:{live.topic} +\S+ +\d +10 +10 [^\n]*\n){{4}}"
    output = eventually(admin, ["consumerProgress", "-g", live.consumer_group], committed, 30)
    rows = [line.split() for line in output.splitlines() if line.startswith(live.topic)]
    shown = sorted(row[:6] for row in rows)
    assert shown == [[live.topic, BROKER, str(q), "10", "10", "0"] for q in range(4)]
    assert "Consume Diff Total: 0" in output
    listed = [line.split() for line in admin("consumerProgress").splitlines()]
    mine = [row for row in listed if row[:1] == [live.consumer_group]]
    assert mine and mine[0][1:5] == ["1", "V5_5_0", "PUSH", "CLUSTERING"]


def test_connections_are_shown(admin: Admin, live: Live) -> None:
    output = admin("consumerConnection", "-g", live.consumer_group)
    assert re.search(r"^\S+@\S+ +127\.0\.0\.1:\d+ +JAVA +V5_5_0", output, re.MULTILINE)
    assert re.search(rf"^{live.topic} +\*", output, re.MULTILINE)
    assert re.search(rf"^%RETRY%{live.consumer_group} +\*", output, re.MULTILINE)
    assert "ConsumeType: CONSUME_PASSIVELY" in output
    assert "MessageModel: CLUSTERING" in output
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in output
    output = admin("producerConnection", "-g", live.producer_group, "-t", live.topic)
    assert re.search(r"^0001 +\S+@\S+ +127\.0\.0\.1:\d+ +JAVA +V5_5_0", output, re.MULTILINE)
    assert "CODE: 17" in admin("consumerConnection", "-g", "nobody")
    assert "CODE: 1 " in admin("producerConnection", "-g", "nobody", "-t", live.topic)


def test_messages_are_found_by_key_tag_and_unique_id(admin: Admin, live: Live) -> None:
    def rows(*words: str) -> list[list[str]]:
        lines = admin("queryMsgByKey", "-t", live.topic, *words).splitlines()
        return [line.split() for line in lines if re.match(r"[0-9A-Fa-f]{32,56} ", line)]

    eventually(admin, ["queryMsgByKey", "-t", live.topic, "-k", "k39"], r"[0-9A-F]{32,56} ")
    assert [row[1:3] for row in rows("-k", "k12")] == [["0", "3"]]
    assert rows("-k", "k40") == []
    assert len(rows("-k", "tag", "-p", "T")) == 40
    assert len(rows("-k", "tag", "-p", "T", "-m", "7")) == 7
    assert rows("-k", "k12", "-b", "0", "-e", "1000") == []
    unique_id = rows("-k", "k39")[0][0]
    table = fields(admin("queryMsgByUniqueKey", "-t", live.topic, "-i", unique_id), ":")
    assert table["Keys"] == "[k39]"
    assert table["Queue Offset"] == "9"


def test_messages_are_found_by_id_and_by_offset(admin: Admin, target: Target, live: Live) -> None:
    for output, key, offset in (
        (admin("queryMsgById", "-t", live.topic, "-i", live.last_message_id), "k39", "9"),
        (
            admin("queryMsgByOffset", "-t", live.topic, "-b", BROKER, "-i", "0", "-o", "3"),
            "k12",
            "3",
        ),
    ):
        table = fields(output, ":")
        assert table["Topic"] == live.topic
        assert table["Tags"] == "[tag]"
        assert table["Keys"] == f"[{key}]"
        assert table["Queue Offset"] == offset
        assert table["Store Host"] == target.broker
        assert f"n={key[1:]}" in table["Properties"]
        assert f"consumerGroup={live.consumer_group}, trackType=CONSUMED" in output
        body = Path(table["Message Body Path"])
        assert body.read_text() == f"body-{key[1:]}"
        body.unlink()


def test_messages_are_sent_consumed_and_printed(
    admin: Admin, target: Target, session_id: str
) -> None:
    topic = f"{session_id}_adm_send"
    make_topic(admin, target, topic, 2)
    sent = admin("sendMessage", "-t", topic, "-p", "hello admin", "-k", "key1", "-c", "tagA")
    assert re.search(rf"{BROKER} +[01] +SEND_OK +[0-9A-F]{{32,56}}", sent)
    sent = admin("sendMessage", "-t", topic, "-p", "hello queue", "-b", BROKER, "-i", "1")
    assert re.search(rf"{BROKER} +1 +SEND_OK", sent)
    time.sleep(0.5)  # Apache builds its queues a moment behind its log
    consumed = admin("consumeMessage", "-t", topic)
    assert consumed.count("MSGID: ") == 2
    assert "KEYS=key1" in consumed
    one = admin("consumeMessage", "-t", topic, "-b", BROKER, "-i", "1")
    assert "BODY: hello queue" in one or "queueId=1" in one
    printed = admin("printMsg", "-t", topic, "-d", "true")
    assert "hello admin" in printed
    assert "hello queue" in printed
    tagged = admin("printMsg", "-t", topic, "-d", "true", "-s", "tagA")
    assert "hello admin" in tagged
    assert "hello queue" not in tagged
    queue = admin(
        "printMsgByQueue", "-t", topic, "-a", BROKER, "-i", "1", "-p", "true", "-d", "true"
    )
    assert "hello queue" in queue


def test_broker_settings_are_shown_and_changed(admin: Admin, target: Target) -> None:
    table = fields(admin("getBrokerConfig", "-b", target.broker), "=")
    assert table["brokerName"] == BROKER
    assert table["brokerClusterName"] == CLUSTER
    assert table["listenPort"] == target.broker.split(":")[1]
    assert table["flushDiskType"] == "ASYNC_FLUSH"
    assert table["mappedFileSizeCommitLog"] == str(64 * 1024 * 1024)
    assert table["fileReservedTime"] == "72"
    changed = admin("updateBrokerConfig", "-b", target.broker, "-k", "fileReservedTime", "-v", "71")
    assert "update broker config success" in changed
    table = fields(admin("getBrokerConfig", "-b", target.broker), "=")
    assert table["fileReservedTime"] == "71"
    refused = admin("updateBrokerConfig", "-b", target.broker, "-k", "brokerConfigPath", "-v", "/x")
    assert "CODE: 16" in refused


def test_write_permission_is_wiped_and_given_back(
    admin: Admin, target: Target, session_id: str
) -> None:
    topic = f"{session_id}_adm_wipe"
    make_topic(admin, target, topic, 1)
    try:
        wiped = admin("wipeWritePerm", "-b", BROKER, "-n", target.name_server)
        assert re.search(rf"wipe write perm of broker\[{BROKER}\] .* OK, [1-9]", wiped)
        eventually(admin, ["topicRoute", "-t", topic], '"perm":4')
    finally:
        added = admin("addWritePerm", "-b", BROKER, "-n", target.name_server)
    assert re.search(rf"add write perm of broker\[{BROKER}\] .* OK, [1-9]", added)
    eventually(admin, ["topicRoute", "-t", topic], '"perm":6')


def test_key_value_settings_of_the_name_server(admin: Admin) -> None:
    set_it = admin("updateKvConfig", "-s", "compat", "-k", "key1", "-v", "value 1")
    assert "create or update kv config to namespace success." in set_it
    removed = admin("deleteKvConfig", "-s", "compat", "-k", "key1")
    assert "delete kv config from namespace success." in removed
    assert "listenPort" in admin("getNamesrvConfig")


def test_overviews_name_topic_and_group(admin: Admin, target: Target, live: Live) -> None:
    assert admin("topicClusterList", "-t", live.topic).split() == [CLUSTER]
    stats = admin("statsAll", "-t", live.topic)
    assert re.search(rf"^{live.topic} +{live.consumer_group} +0 ", stats, re.MULTILINE)
    rows = [
        line.split()
        for line in admin("brokerConsumeStats", "-b", target.broker).splitlines()
        if line.startswith(live.topic)
    ]
    assert sorted(row[:4] for row in rows) == [
        [live.topic, live.consumer_group, BROKER, str(queue)] for queue in range(4)
    ]
    allocated = admin("allocateMQ", "-t", live.topic, "-i", "10.0.0.1,10.0.0.2")
    assert allocated.count('"queueId"') == 4
