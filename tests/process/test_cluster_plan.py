"""Goal: a cluster grows and shrinks while a producer and a consumer work; nothing is lost.

Method: real brokers and the command line. The producer counts acknowledged messages, the consumer
those that came (rmq/demo/traffic.py). Both ask for routes five times a second, so that --quiet can
be short. Not shown here: clients that keep old routes for half a minute; Apache's brokers
(tests/compat/test_scaling.py); each rule of the plans (tests/unit/scaling).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import rmq
from support.driven_clock import DrivenClock, process_clock
from support.replica_set import Server
from support.stopping import stand_still
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Message, Producer
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.codes import TRANSACTION_ROLLBACK_TYPE, RequestCode
from rmq.demo.traffic import TOPIC, Traffic
from rmq.errors import RmqError
from rmq.format.fastjson import MessageQueue
from rmq.scaling.execution import Execution
from rmq.scaling.plan import remove
from rmq.scaling.replacement import replace
from rmq.scaling.survey import Survey
from rmq.scaling.unconsumed import HALVES, TIMED

SMALL = ("--set", f"mappedFileSizeCommitLog={4 << 20}", "--set", "maxMessageSize=1048576",
         "--set", "waitTimeMillsInSendQueue=60000", "--set", "osPageCacheBusyTimeOutMills=60000",
         "--set", "flushConsumerOffsetInterval=200")  # fmt: skip


class Brokers:
    """A name server, and the brokers that a test starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        memory = ("--set", "kvConfigPath=")  # the default file is shared by this user's servers
        self.name_server = Server(folder / "n.txt", "namesrv", *memory)
        self.namesrv = self.name_server.address
        self.servers: dict[str, Server] = {}

    def start(self, name: str, *more: str, clock: DrivenClock | None = None) -> Server:
        words = ("broker", "-n", self.namesrv, "--store", str(self._folder / name), *SMALL,
                 "--set", f"brokerName={name}", *more)  # fmt: skip
        made = Server(self._folder / f"{name}.txt", *words, clock=clock)
        self.servers[name] = made
        return made

    def end(self) -> None:
        for each in (*self.servers.values(), self.name_server):
            if each.process.poll() is None:
                each.kill()

    def rmq(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return rmq("cluster", *words, "-n", self.namesrv, text=text)

    def steps(self, *words: str) -> list[tuple[str, str, str | None, str | None]]:
        return [(row["broker"], row["what"], row["from"], row["to"])
                for row in self.told(*words)["steps"]]  # fmt: skip

    def told(self, *words: str) -> dict[str, Any]:
        done = self.rmq(*words, "--json")
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    made = Brokers(tmp_path)
    try:
        made.start("broker-a", "--set", "enableMixedMessageType=true")
        yield made
    finally:
        made.end()


def writable(view: Cluster, topic: str) -> set[str]:
    return {each.broker_name for each in view.route(topic).writable()}


def test_a_broker_is_added_and_another_drained_under_load(brokers: Brokers) -> None:
    with Cluster(brokers.namesrv) as view:
        make_topic(view, TOPIC, 3, attributes={"message.type": "NORMAL"})
        admin.create_group(view, "late", {"retryMaxTimes": 3})
        admin.commit_offset(view, "late", MessageQueue(TOPIC, "broker-a", 0), 0)
        traffic = Traffic(brokers.namesrv, persist_ms=500)
        try:
            traffic.start()
            wait_until(lambda: traffic.received > 20)
            _add(brokers, view, traffic)
            _drain(brokers, view, traffic)
            _remove(brokers, view, traffic)
        finally:
            traffic.close()


def _add(brokers: Brokers, view: Cluster, traffic: Traffic) -> None:
    added = brokers.start("broker-b")
    wait_until(lambda: len(view.brokers()) == 2)
    planned = brokers.steps("plan", "add", "broker-b")
    assert ("broker-b", "group late", None, "as broker-a has it") in planned
    assert ("broker-b", f"topic {TOPIC}", None, "3 queues rw, message.type=NORMAL") in planned
    assert "no broker broker-x" in brokers.rmq("plan", "add", "broker-x").stderr
    assert writable(view, TOPIC) == {"broker-a"}  # a plan changes nothing

    refused = brokers.rmq("apply", "add", "broker-b", text="n\n")
    assert refused.returncode == 1 and "Carry out this plan?" in refused.stdout
    assert writable(view, TOPIC) == {"broker-a"}
    done = brokers.rmq("apply", "add", "broker-b", text="y\n")
    assert done.returncode == 0, done.stderr
    assert brokers.steps("plan", "add", "broker-b") == []
    assert "there is nothing to do" in brokers.rmq("apply", "add", "broker-b").stdout
    both = view.route(TOPIC).entries
    assert [(each.read_queues, each.write_queues, each.perm) for each in both] == [(3, 3, 6)] * 2
    wait_until(lambda: added.counted("putMessageTimesTotal") > 20)
    assert admin.groups(view)["late"]["retryMaxTimes"] == 3


def _drain(brokers: Brokers, view: Cluster, traffic: Traffic) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)
    with Producer("P", namesrv_addr=brokers.namesrv, send_msg_timeout=60_000) as producer:
        delayed = Message(TOPIC, b"0", delay_level=1)  # it comes a second later
        assert producer.send(delayed, queue=queue).is_ok
    assert "not drained: it takes sends" in brokers.rmq("plan", "remove", "broker-a").stderr

    drained = brokers.told("apply", "drain", "broker-a", "--yes", "--wait", "0")
    assert drained["drained"] == []
    (left,) = drained["unconsumed"].values()
    assert [row["group"] for row in left["groups"] if row["group"] == "late"] == ["late"]
    assert left["internal"]["open transactions"] == 0
    assert writable(view, TOPIC) == {"broker-b"}
    lost = brokers.rmq("plan", "remove", "broker-a", "--force").stdout
    assert "lost when it is removed: unconsumed" in lost
    short = brokers.rmq("apply", "drain", "broker-a", "--yes", "--quiet", "0.5", "--wait", "1")
    assert short.returncode == 1 and "not drained yet: broker-a: late " in short.stderr

    for each in admin.topic_queues(view, TOPIC):  # the ends: no more messages come
        if each.queue.broker_name == "broker-a":
            admin.commit_offset(view, "late", each.queue, each.max_offset)
    whole = brokers.rmq("apply", "drain", "broker-a", "--yes", "--quiet", "1")
    assert whole.returncode == 0, whole.stderr
    assert "broker-a is drained and can be removed" in whole.stdout
    ends = {each.queue: each.max_offset for each in admin.topic_queues(view, TOPIC)
            if each.queue.broker_name == "broker-a"}  # fmt: skip
    assert sum(ends.values()) > 20
    info = admin.runtime_info(view, view.brokers()[0])
    assert info["scheduleMessageOffset_1"] == "1,1"  # the delayed message has come and is consumed
    rows = {each.queue: each for each in admin.group_progress(view, "demo-consumer")[0]}
    assert {queue: rows[queue].consumer_offset for queue in ends} == ends
    before = traffic.sent
    wait_until(lambda: traffic.sent > before + 20)
    assert {each.queue: each.max_offset for each in admin.topic_queues(view, TOPIC)
            if each.queue.broker_name == "broker-a"} == ends  # fmt: skip


def _remove(brokers: Brokers, view: Cluster, traffic: Traffic) -> None:
    done = brokers.rmq("apply", "remove", "broker-a", "--yes")
    assert done.returncode == 0, done.stderr
    assert "stopped, by you" in done.stdout
    assert {each.broker_name for each in view.route(TOPIC).readable()} == {"broker-b"}
    brokers.servers["broker-a"].process.terminate()
    assert brokers.servers["broker-a"].process.wait(HANG_S) == 0
    wait_until(lambda: [each.name for each in view.brokers()] == ["broker-b"])
    assert "nothing to stop" in brokers.rmq("plan", "remove", "broker-a").stdout
    before = traffic.sent
    wait_until(lambda: traffic.sent > before + 20)
    traffic.stop_sending()
    wait_until(lambda: traffic.on_the_way() == 0)


def test_a_drain_is_taken_back_and_holds_for_what_is_made_meanwhile(brokers: Brokers) -> None:
    """A drain also holds for topics of fixed order, whose producers do not look at permissions, and
    for topics that are made meanwhile. It is refused if a topic would have no other broker."""
    brokers.start("broker-b")
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "pay"}
    with Cluster(brokers.namesrv) as view:

        def found() -> list[set[str]]:
            return [writable(view, each) for each in ("pay", "alone", "new")]

        wait_until(lambda: len(view.brokers()) == 2)
        make_topic(view, "pay", 2, order=True)
        conf = {**order, "value": "broker-a:2;broker-b:2"}
        view.name_server_call(RequestCode.PUT_KV_CONFIG, conf)
        alone = {"topic": "alone", "defaultTopic": "TBW102", "readQueueNums": 1,
                 "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG",
                 "order": False}  # fmt: skip
        at_a = view.address_of("broker-a")
        view.call(at_a, RequestCode.UPDATE_AND_CREATE_TOPIC, alone)
        refused = brokers.rmq("plan", "drain", "broker-a")
        assert refused.returncode == 1
        assert "no other broker takes sends to alone" in refused.stderr
        _refused_in_part(brokers, view, alone)
        done = brokers.rmq("apply", "add", "broker-b", "--topics", "alone", "--yes")
        assert "there is nothing to do" in done.stdout
        view.call(at_a, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "mixed"})

        done = brokers.rmq("apply", "drain", "broker-a", "--yes", "--quiet", "0")
        assert done.returncode == 0, done.stderr
        assert "broker-a is drained" in done.stdout
        assert view.name_server_call(RequestCode.GET_KV_CONFIG, order).fields["value"] == (
            "broker-a:0;broker-b:2"
        )
        make_topic(view, "new", 1)
        wait_until(lambda: found() == [{"broker-b"}] * 3)

        done = brokers.rmq("apply", "undrain", "broker-a", "--yes")
        assert done.returncode == 0, done.stderr
        both = {"broker-a", "broker-b"}
        wait_until(lambda: found() == [both] * 3)
        assert brokers.steps("plan", "undrain", "broker-a") == []


def _refused_in_part(brokers: Brokers, view: Cluster, topic: dict[str, Any]) -> None:
    """`apply add` reports a topic that the new broker refuses, and leaves the fixed order of that
    topic as it is; the other steps are done."""
    mixed = {**topic, "topic": "mixed", "attributes": "+message.type=MIXED"}
    view.call(view.address_of("broker-a"), RequestCode.UPDATE_AND_CREATE_TOPIC, mixed)
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "mixed"}
    view.name_server_call(RequestCode.PUT_KV_CONFIG, {**order, "value": "broker-a:1"})
    done = brokers.rmq("apply", "add", "broker-b", "--yes")
    assert done.returncode == 1
    assert "broker-b: topic mixed: code 29: MIXED message type is not supported" in done.stderr
    not_tried = "broker-b: order of mixed: not tried, because this step failed: topic mixed"
    assert not_tried in done.stderr
    reply = view.name_server_call(RequestCode.GET_KV_CONFIG, order)
    assert reply.fields["value"] == "broker-a:1"
    wait_until(lambda: writable(view, "alone") == {"broker-a", "broker-b"})
    view.name_server_call(RequestCode.DELETE_KV_CONFIG, order)


def test_what_pops_and_transactions_have_under_way_is_waited_for(
    brokers: Brokers, tmp_path: Path
) -> None:
    """A drain ends only when popped messages are acknowledged and transactions are ended."""
    with process_clock(tmp_path) as clock, Cluster(brokers.namesrv) as view:
        brokers.start("broker-b", clock=clock)
        wait_until(lambda: len(view.brokers()) == 2)
        make_topic(view, "t", 1)
        admin.create_group(view, "g", {})
        queue = MessageQueue("t", "broker-b", 0)
        with Producer("P", namesrv_addr=brokers.namesrv, send_msg_timeout=60_000) as producer:
            for number in range(2):
                assert producer.send(Message("t", b"%d" % number), queue=queue).is_ok
        survey = Survey(view)
        system = survey.state().system
        at_b = view.address_of("broker-b")
        half = view.call(at_b, RequestCode.SEND_MESSAGE_V2, HALF, b"half").fields
        popped = view.call(at_b, RequestCode.POP_MESSAGE, POP).fields
        left = survey.unconsumed("broker-b", system)
        assert left.internal[HALVES] == 1 and left.internal[TIMED]  # the pop's check point
        assert left.by_group == {}  # a pop moves the offset at once

        extra = f"0 {popped['popTime']} {INVISIBLE_MS} {popped['reviveQid']} 0 broker-b 0"
        for offset in range(2):
            ack = {"consumerGroup": "g", "topic": "t", "queueId": 0, "offset": offset}
            view.call(at_b, RequestCode.ACK_MESSAGE, {**ack, "extraInfo": extra})
        end = {
            "producerGroup": "P", "tranStateTableOffset": half["queueOffset"],
            "commitLogOffset": int(half["msgId"][-16:], 16), "fromTransactionCheck": False,
            "commitOrRollback": TRANSACTION_ROLLBACK_TYPE, "msgId": "K", "transactionId": "K",
        }  # fmt: skip
        view.call(at_b, RequestCode.END_TRANSACTION, end)
        with clock.passing():
            words = ("--yes", "--quiet", "0", "--wait", "120")
            done = brokers.rmq("apply", "drain", "broker-b", *words)
        assert done.returncode == 0, done.stderr
        assert survey.unconsumed("broker-b", system).text() == "nothing"


def test_a_broker_that_is_started_again_is_told_anew(brokers: Brokers) -> None:
    """A drained broker that restarts has forgotten the drain. The command that still waits for its
    consumers drains it again."""
    brokers.start("broker-b")
    with Cluster(brokers.namesrv) as view:
        wait_until(lambda: len(view.brokers()) == 2)
        make_topic(view, "t", 1)
        admin.create_group(view, "late", {})
        queue = MessageQueue("t", "broker-a", 0)
        admin.commit_offset(view, "late", queue, 0)
        with Producer("P", namesrv_addr=brokers.namesrv, send_msg_timeout=60_000) as producer:
            assert producer.send(Message("t", b"x"), queue=queue).is_ok
        words = ("apply", "drain", "broker-a", "--yes", "--quiet", "0", "-n", brokers.namesrv)
        drain = subprocess.Popen(
            [sys.executable, "-u", "-m", "rmq", "cluster", *words], stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        try:
            assert drain.stdout is not None
            assert any("1 unconsumed: late 1 of t" in line for line in drain.stdout)
            brokers.servers["broker-a"].kill()
            brokers.servers["broker-a"].start()
            assert any("takes sends again, and is drained again" in line for line in drain.stdout)
            wait_until(lambda: writable(view, "t") == {"broker-b"})
            view.drop(brokers.servers["broker-a"].address)  # the connection ended with the process
            admin.commit_offset(view, "late", queue, 1)
            assert "broker-a is drained" in drain.stdout.read()
            assert drain.wait(HANG_S) == 0
        finally:
            drain.kill()
            drain.wait()


def test_a_broker_that_says_nothing_any_more_is_forgotten_by_force(brokers: Brokers) -> None:
    """A broker that hangs is removed from the routes only by force; without it, the refusal names
    `plan replace`."""
    silent = brokers.start("broker-b")
    with Cluster(brokers.namesrv) as view:
        wait_until(lambda: len(view.brokers()) == 2)
        stand_still(silent.process.pid)  # its connections stay
        survey = Survey(view)
        state = survey.state()
        with pytest.raises(RmqError, match="plan replace broker-b"):
            remove(state, ["broker-b"], {})
        assert "rmq store restore" in str(replace(state, "broker-b").steps)
        plan = remove(state, ["broker-b"], {}, force=True)
        lines: list[str] = []
        outcome = Execution(view, survey, lines.append).run(plan, state.system)
        assert outcome.done == plan.steps
        assert lines == [f"broker-b: route to {silent.address}: gone"]
        assert [each.name for each in view.brokers()] == ["broker-a"]


# ---- requests


HALF = {"a": "P", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 4, "g": 0, "h": 0, "j": 0,
        "i": "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01K\x02", "k": False,
        "m": False}  # fmt: skip
INVISIBLE_MS = 8000  # long enough to look at the check point and acknowledge it
POP = {"consumerGroup": "g", "topic": "t", "queueId": 0, "maxMsgNums": 2, "order": False,
       "invisibleTime": INVISIBLE_MS, "pollTime": 0, "bornTime": 0, "initMode": 0}  # fmt: skip
