"""Goal: an exit code and a line tell monitoring how brokers and groups are; messages in a group's
retry topics, those that wait for their delay, and dead letters are counted apart.

Method: a real broker, groups that sent messages back and gave some up, thresholds above and below
the real numbers. Cannot show: states of a broker with a full or broken disk; tests/fault has these,
by `rmq broker status`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq
from support.topics import make_topic
from support.waiting import wait_until

from rmq import Admin, Message, Producer, PushConsumer
from rmq.client.consumer.listener import ConsumeConcurrentlyStatus
from rmq.format.fastjson import MessageQueue

LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER
OK, WARNING, CRITICAL, UNKNOWN = range(4)
LONG = 17  # delay levels before that of an hour


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    delays = ("--set", f"messageDelayLevel={'1s ' * LONG}1h")
    with broker_process(tmp_path_factory.mktemp("check"), delays) as process:
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
    return broker.namesrv


def check(*words: str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    done = rmq("check", *words)
    return done.returncode, done.stdout + done.stderr


def described(group: str) -> dict[str, Any]:
    done = rmq("group", "describe", group, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def group(broker: BrokerProcess) -> str:
    """Of six messages it has consumed two, sent two back and given two up; it is offline."""
    name, topic = "ill", "of-ill"
    with Admin(namesrv_addr=broker.namesrv) as admin:
        make_topic(admin, topic, 1)
    queue = MessageQueue(topic, "broker-a", 0)

    def decide(messages: list[Any], context: Any) -> Any:
        if messages[0].reconsume_times:
            raise RuntimeError("not now")  # comes again, later and later
        context.delay_level_when_next_consume = {b"give": -1, b"late": 1}.get(messages[0].body, 0)
        return LATER if messages[0].body != b"good" else None

    with Producer("P", namesrv_addr=broker.namesrv) as producer:
        for body in ("good", "late", "give") * 2:
            producer.send(Message(topic, body), queue=queue)
        with PushConsumer(
            name, decide, namesrv_addr=broker.namesrv,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer:  # fmt: skip
            consumer.subscribe(topic)
            wait_until(lambda: _is_at(broker.namesrv, name, queue, 6))
        producer.send(Message(topic, "new"), queue=queue)
    return name


def _is_at(namesrv: str, group: str, queue: MessageQueue, offset: int) -> bool:
    with Admin(namesrv_addr=namesrv) as admin:
        return admin.committed_offset(group, queue) == offset


def test_retries_and_dead_letters_are_lag_of_their_own(group: str) -> None:
    wait_until(lambda: described(group)["retry_lag"] >= 2)  # when their delay is over
    found = described(group)
    assert (found["lag"], found["dead_letters"]) == (1, 2)
    assert [(row["topic"], row["lag"]) for row in found["queues"]] == [("of-ill", 1)]
    assert {row["topic"] for row in found["retry_queues"]} == {"%RETRY%ill"}
    assert sum(row["lag"] for row in found["retry_queues"]) == found["retry_lag"]
    (letters,) = (row for row in found["dead_letter_queues"] if row["messages"])
    assert (letters["topic"], letters["messages"]) == ("%DLQ%ill", 2)
    assert letters["last_died_ms"] > 0 and letters["last_died"].endswith("Z")
    text = rmq("group", "describe", group).stdout
    assert "%RETRY%ill" in text and "%DLQ%ill" in text and "dead letters 2" in text
    (row,) = (each for each in json.loads(rmq("group", "list", "--json").stdout)
              if each["group"] == group)  # fmt: skip
    assert (row["lag"], row["retry_lag"], row["dead_letters"]) == (1, found["retry_lag"], 2)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), WARNING, "2 dead letters"),
        (("--dead-letters-warning", "3"), OK, "0 members online"),
        (("--dead-letters-critical", "2"), CRITICAL, "2 dead letters"),
        (("--dead-letters-warning", "9", "--lag-warning", "3"), WARNING, "ill: lag "),
        (("--lag-critical", "1"), CRITICAL, "ill: lag "),
        (("--dead-letters-warning", "9", "--lag-critical", "999"), OK, ";;999"),
        (("--members", "1"), CRITICAL, "0 of 1 member online"),
        (("--lag-warning", "many"), UNKNOWN, "--lag-warning"),
    ],
)
def test_a_group_by_thresholds(group: str, words: tuple[str, ...], status: int, said: str) -> None:
    wait_until(lambda: described(group)["retry_lag"] >= 2)
    code, text = check("group", group, *words)
    assert (code, said in text) == (status, True), text


def test_retries_that_wait_for_their_delay_are_told(broker: BrokerProcess) -> None:
    """They are in no topic of the group yet; messages sent with the same delay are none of them."""
    with Admin(namesrv_addr=broker.namesrv) as admin:
        make_topic(admin, "of-patient", 1)
    queue = MessageQueue("of-patient", "broker-a", 0)

    def send_back(messages: list[Any], context: Any) -> Any:
        context.delay_level_when_next_consume = LONG + 1
        return LATER

    with Producer("P", namesrv_addr=broker.namesrv) as producer:
        for number in range(3):
            producer.send(Message("of-patient", b"%d" % number), queue=queue)
        producer.send(Message("of-patient", "sent so", delay_level=LONG + 1))
        with PushConsumer(
            "patient", send_back, namesrv_addr=broker.namesrv,
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        ) as consumer:  # fmt: skip
            consumer.subscribe("of-patient")
            wait_until(lambda: _is_at(broker.namesrv, "patient", queue, 3))
    found = described("patient")
    assert (found["lag"], found["retry_lag"], found["dead_letters"]) == (0, 0, 0)
    assert (found["delayed_retries"], found["delayed_retries_exact"]) == (3, True)
    assert "retries 0, delayed retries 3," in rmq("group", "describe", "patient").stdout
    rows = {each["group"]: each for each in json.loads(rmq("group", "list", "--json").stdout)}
    assert rows["patient"]["delayed_retries"] == 3
    code, text = check("group", "patient", "--lag-warning", "3")
    assert (code, "patient: lag 3" in text) == (WARNING, True), text
    assert "delayed_retries=3" in text
    assert check("group", "patient", "--lag-warning", "4")[0] == OK


def test_a_group_that_is_not_there_is_unknown() -> None:
    code, text = check("group", "nobody")
    assert (code, text.startswith("RMQ GROUP UNKNOWN - ")) == (UNKNOWN, True)


def test_brokers_by_state_number_and_disk(broker: BrokerProcess) -> None:
    quiet = ("--disk-warning", "101", "--disk-critical", "101")
    code, text = check("brokers", *quiet)
    assert (code, "1 of 1 broker run" in text) == (OK, True), text
    assert text.startswith("RMQ BROKERS OK - ") and " | brokers_running=1 " in text
    assert check("brokers", "--disk-warning", "0", "--disk-critical", "101")[0] == WARNING
    assert check("brokers", "--disk-critical", "0")[0] == CRITICAL
    code, text = check("brokers", *quiet, "--expect", "2")
    assert (code, "1 of 2 expected brokers run" in text) == (CRITICAL, True)
    assert check("brokers", "-n", "127.0.0.1:1")[0] == CRITICAL
    assert check("brokers", "--expect", "none")[0] == UNKNOWN


def test_data_says_the_same(broker: BrokerProcess) -> None:
    done = rmq("check", "brokers", "--disk-warning", "0", "--disk-critical", "101", "-o", "json")
    found = json.loads(done.stdout)
    assert (found["status"], found["exit_code"], done.returncode) == ("WARNING", 1, 1)
    assert [each["status"] for each in found["problems"]] == ["WARNING"]
    assert found["numbers"][0]["name"] == "brokers_running"


def test_the_machine_by_what_matters() -> None:
    rows = json.loads(rmq("check", "--store", "/", "--json").stdout)
    bad = {each["name"] for each in rows if each["good"] is False}
    code, text = check("machine", "--store", "/")
    wanted = CRITICAL if "free space for the store" in bad else WARNING if bad else OK
    assert (code, text.startswith("RMQ MACHINE ")) == (wanted, True)
    assert check("machine", "--store", "/", "--set", "diskMaxUsedSpaceRatio=1")[0] == CRITICAL
