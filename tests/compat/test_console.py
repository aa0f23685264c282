"""The web console with a broker of either kind: the same pages, with RocketMQ's requests only.

Method: the console in this process, the Python client for messages and members. What RocketMQ's
brokers do not tell (figures of topics) is not asked for here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from compat.targets import Target
from support.console import Browser, served_console, text_of
from support.waiting import wait_until

from rmq import Message, Producer, PushConsumer
from rmq.console.settings import ConsoleSettings
from rmq.format.fastjson import MessageQueue
from rmq.operations.audit_log import NOT_SUPPORTED

SETTINGS = {"consumeEnable": "yes", "consumeBroadcastEnable": "yes", "retryMaxTimes": "3",
            "retryQueueNums": "1", "consumeTimeoutMinute": "15"}  # fmt: skip


@pytest.fixture(scope="module")
def console(target: Target) -> Iterator[Browser]:
    with served_console(ConsoleSettings(target.name_server)) as browser:
        yield browser


@pytest.fixture(scope="module")
def names(console: Browser, target: Target, session_id: str) -> tuple[str, str]:
    """Makes a topic with ten messages, and a group, both with the console; returns their names."""
    topic, group = f"console-{session_id}", f"console-group-{session_id}"
    made = console.change("/topic/create", topic=topic, queues="1", perm="rw", message_type="")
    assert f"Topic {topic} was created" in made
    assert "was created" in console.change("/group/create", group=group, **SETTINGS)
    wait_until(lambda: console.get("/topic", topic=topic).status_code == 200)
    with Producer(f"p-{session_id}", namesrv_addr=target.name_server) as producer:
        for n in range(10):
            message = Message(topic, f"body-{n}", tags="odd" if n % 2 else "even", keys=f"k{n}")
            producer.send(message, queue=MessageQueue(topic, "broker-a", 0))
    return topic, group


def shown(console: Browser, path: str, **parameters: str) -> str:
    answer = console.get(path, **parameters)
    assert answer.status_code == 200, text_of(answer.text)
    return text_of(answer.text)


@pytest.mark.parametrize("path", ["/", "/brokers", "/broker?name=broker-a", "/topics",
                                  "/topics?kind=system", "/groups?system=yes", "/dead-letters",
                                  "/later", "/accounts", "/audit", "/config?show=all",
                                  "/config?servers=names"])  # fmt: skip
def test_every_page_is_shown(console: Browser, names: tuple[str, str], path: str) -> None:
    answer = console.client.get(path)
    assert answer.status_code == 200, text_of(answer.text)
    assert "DOCTYPE" in answer.text.upper()


def test_who_keeps_no_audit_log_says_so(console: Browser, target: Target) -> None:
    text = shown(console, "/audit")
    no_accounts = "accounts are not in use here"
    assert (NOT_SUPPORTED if target.kind == "apache" else no_accounts) in text


def test_the_overview_has_rates_and_disk(console: Browser, target: Target) -> None:
    text = shown(console, "/")
    assert f"broker-a {target.broker} running" in text
    assert re.search(r"Messages in [\d.,]+ a second", text)
    assert re.search(r"Fullest disk \d+%", text)


def test_messages_are_found(console: Browser, names: tuple[str, str]) -> None:
    topic, _ = names

    def bodies(**asked: str) -> list[int]:
        text = shown(console, "/messages", topic=topic, **asked)
        return [int(each) for each in re.findall(r"body-(\d+)", text)]

    wait_until(lambda: bodies(count="3") == [9, 8, 7])
    assert bodies(queue="broker-a/0", **{"from": "5"}, count="2") == [5, 6]
    assert bodies(tag="odd", count="2") == [9, 7]
    assert bodies(**{"from": "-1h"}, count="2") == [0, 1]
    wait_until(lambda: bodies(key="k4") == [4])
    place = {"topic": topic, "broker": "broker-a", "queue": "0", "offset": "3"}
    assert "body-3" in shown(console, "/message", **place)


def test_a_group_is_moved_and_shown(console: Browser, names: tuple[str, str]) -> None:
    topic, group = names
    moved = console.change("/group/move", group=group, topic=topic, to="4")
    assert f"Group {group} was moved" in moved
    wait_until(lambda: f"{topic} broker-a 0 4 10 6" in shown(console, "/group", group=group))
    rows = shown(console, "/groups", part=group)
    assert re.search(rf"{group} 6 0 1", rows), rows
    assert f"{group} 6" in shown(console, "/topic", topic=topic)
    changed = console.change("/group/update", group=group, **{**SETTINGS, "retryMaxTimes": "5"})
    assert "was changed" in changed


def test_a_member_is_seen_and_asked(
    console: Browser, target: Target, names: tuple[str, str]
) -> None:  # fmt: skip
    topic, group = names
    got: list[bytes] = []

    def take(messages: list[Any], context: Any) -> None:
        got.extend(each.body for each in messages)

    with PushConsumer(group, take, namesrv_addr=target.name_server) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: "/client?" in console.get("/group", group=group).text)
        link = re.search(r'href="(/client\?[^"]+)"', console.get("/group", group=group).text)
        assert link is not None
        assert topic in shown(console, html.unescape(link[1]))
        wait_until(lambda: len(got) >= 6)
        wait_until(lambda: re.search(rf"{group} \d+ 1 ", shown(console, "/groups", part=group)))


def test_a_message_is_sent_and_the_topic_deleted(
    console: Browser, names: tuple[str, str], session_id: str
) -> None:
    topic = f"console-gone-{session_id}"
    console.change("/topic/create", topic=topic, queues="1", perm="rw", message_type="")
    wait_until(lambda: console.get("/topic", topic=topic).status_code == 200)
    assert "SEND_OK" in console.change("/topic/send", topic=topic, body="hello")
    wait_until(lambda: "hello" in shown(console, "/messages", topic=topic))
    assert "was deleted" in console.change("/topic/delete", topic=topic)


def test_a_setting_is_changed(console: Browser) -> None:
    fields = {"servers": "brokers", "key": "fileReservedTime", "value": "71"}
    assert "fileReservedTime=71 holds on broker-a" in console.change("/config/set", **fields)
    assert "fileReservedTime 72 71" in shown(console, "/config")
