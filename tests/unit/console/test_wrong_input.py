"""Wrong input over HTTP: for every field of every change the reason stands beside the field, and
what was typed stays.

Method: forms are sent to a console over a socket whose brokers are away, so that all checks come
before anybody is asked. The test fails for a field that can be wrong and has no row here. Not shown
here: what only brokers know to be wrong (tests/process/test_console_pages.py).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from support.console import NOBODY, Browser, served_console, text_of

from rmq.console.change import Change
from rmq.console.forms import TEXT_MAX, Field
from rmq.console.routes import CHANGES
from rmq.console.settings import ConsoleSettings

# What is accepted in each field, whichever change has it.
RIGHT = {
    "user": "alice", "password": "wonderland", "type": "Normal", "status": "enable",
    "resource": "Topic:orders", "actions": "Pub", "sources": "10.0.0.0/8", "decision": "Allow",
    "kind": "Custom", "group": "billing", "topic": "orders", "to": "first", "queue": "1",
    "retryMaxTimes": "16", "retryQueueNums": "1", "consumeTimeoutMinute": "15",
    "id": "7F00000100002A9F0000000000000061", "servers": "brokers", "key": "fileReservedTime",
    "value": "48", "server": "broker-a", "read_queues": "4", "write_queues": "4", "perm": "rw",
    "queues": "4", "body": "hello", "tag": "paid", "keys": "k1 k2", "properties": "region=eu",
    "delay": "5m", "message_type": "FIFO",
}  # fmt: skip
ONE_LINE = ("a\x07b", "without control characters")
A_NAME = ("a b", "characters outside")
USER = ("a b", "without blanks")
CHOICE = ("neither", "one of ")
# What is refused and why, by field, or by change and field where changes differ.
WRONG = {
    "user": [USER, ("u" * 129, "at most 128 characters"), ("a\x00b", "without blanks")],
    "password": [("p" * 1025, "at most 1024"), ("a\x07b", "that can be printed")],
    "type": [CHOICE],
    "status": [CHOICE],
    "resource": [("orders", "Topic:name")],
    "actions": [("Fly", "one of ")],
    "sources": [("10.0.0.300", "10.0.0.300")],
    "decision": [CHOICE],
    "kind": [CHOICE],
    "group": [A_NAME, ("g" * 121, "120 are allowed"), ("%RETRY%\u00e4", "characters outside")],
    "topic": [A_NAME, ("t" * 128, "127 are allowed")],
    "to": [("soon", "soon"), ("1 to 5", ""), ("-1h to -5m", "")],
    "queue": [("-1", "a whole number from 0"), ("65536", "to 65535"), ("\u0661", "whole number")],
    "retryMaxTimes": [("-1", "a whole number from 0"), ("9" * 30, "a whole number")],
    "retryQueueNums": [("0", "a whole number from 1"), ("1.5", "a whole number")],
    "consumeTimeoutMinute": [("0", "a whole number from 1"), ("1e3", "a whole number")],
    "id": [ONE_LINE],
    "servers": [CHOICE],
    "key": [("a b", "the name of a setting"), ("\u00e4", "the name of a setting")],
    "value": [ONE_LINE],
    "server": [ONE_LINE],
    "read_queues": [("0", "from 1 to 65535"), ("many", "a whole number")],
    "write_queues": [("65536", "from 1 to 65535")],
    "perm": [("x", "one of ")],
    "queues": [("0", "from 1 to 65535")],
    "tag": [ONE_LINE],
    "keys": [ONE_LINE],
    "properties": [("region", "line 1: name=value"), ("a=1\r\n=2", "line 2: name=value")],
    "delay": [("soon", "soon"), ("-5m", "")],
    "message_type": [CHOICE],
    "/acl/delete resource": [ONE_LINE],
    "/dead-letters/resend to": [("neither", "group, origin or topic")],
}  # fmt: skip
# In these fields anything is accepted.
ANY = {"body", "is_super", "is_default", "consumeEnable", "consumeMessageOrderly",
       "consumeBroadcastEnable", "clean", "order"}  # fmt: skip
DESTINATION = {"/dead-letters/resend to": "topic"}


def rows() -> Iterator[tuple[Change, Field, str, str]]:
    for change in CHANGES:
        for field in change.fields:
            if field.name in ANY:
                continue
            for text, reason in WRONG.get(f"{change.path} {field.name}", WRONG[field.name]):
                yield change, field, text, reason
            if field.is_required:
                yield change, field, "", "choose one" if field.is_list else "it is needed"
            if field.has_length_limit and not field.is_list and field.kind != "select":
                yield change, field, "x" * (TEXT_MAX + 1), ""


ROWS = list(rows())


@pytest.fixture(scope="module")
def console() -> Iterator[Browser]:
    with served_console(ConsoleSettings(NOBODY)) as browser:
        yield browser


def right(change: Change) -> dict[str, str]:
    found = {}
    for field in change.fields:
        of_change = f"{change.path} {field.name}"
        if field.name not in ANY:
            found[field.name] = DESTINATION.get(of_change, RIGHT.get(field.name, ""))
    return found


def faults(page: str) -> dict[str, str]:
    found = re.findall(r'<p class="fault" id="fault-(\w+)">(.*?)</p>', page, re.DOTALL)
    return {name: html.unescape(text) for name, text in found}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.path)
def test_what_is_right_has_no_faults_and_asks_the_brokers(console: Browser, change: Change) -> None:
    answer = console.ask(change.path, **right(change))
    assert faults(answer.text) == {}
    if answer.status_code != 200:  # some changes only show what they would do
        assert "no name server answers" in text_of(answer.text)


@pytest.mark.parametrize(
    ("change", "field", "text", "reason"), ROWS,
    ids=[f"{change.path}-{field.name}-{text[:12]!a}" for change, field, text, _ in ROWS],
)  # fmt: skip
def test_the_reason_stands_beside_the_field(
    console: Browser, change: Change, field: Field, text: str, reason: str
) -> None:
    fields: dict[str, object] = {**right(change), field.name: text}
    if field.is_list and not text:
        del fields[field.name]
    answer = console.ask(change.path, **fields)
    if not change.has_questions:  # a change without a form to go back to
        assert answer.status_code == 400
        assert reason in text_of(answer.text)
        return
    assert answer.status_code == 422, text_of(answer.text)
    found = faults(answer.text)
    assert list(found) == [field.name]
    assert reason in found[field.name] and found[field.name].strip()
    if field.kind not in ("hidden", "choices"):
        described = re.search(
            rf'id="field-{field.name}"[^>]*aria-describedby="([^"]*)"', answer.text
        )
        assert described is not None and f"fault-{field.name}" in described[1].split()
    for other in change.fields:  # what was typed must not have to be typed again
        if other.kind in ("text", "number") and other.name in RIGHT and other is not field:
            assert f'value="{fields[other.name]}"' in answer.text
    assert "wonderland" not in answer.text, "but for passwords"
