"""A push consumer that reaches nobody, or finds no topic, says so once and starts. A missing retry
topic is not reported, because no new group has one. A listener that cannot be called in the way it
will be is refused at once.

Method: an address where nobody listens, and a real broker; then the log. The tests wait for further
looks, so that a message could have been repeated.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.waiting import wait_until

from rmq import PushConsumer
from rmq.demo.ports import free_port
from rmq.errors import ConfigError
from rmq.pytest_plugin import RunningBroker

LOOKS = 3


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [each.getMessage() for each in list(caplog.records) if each.levelno == level]


def listen(messages: list[Any], context: Any) -> None:
    """A listener; no message comes to it."""


def begun(group: str, topic: str, address: str) -> PushConsumer:
    consumer = PushConsumer(group, listen, namesrv_addr=address)
    consumer.subscribe(topic)
    consumer.start()
    return consumer


def wait_for_looks(caplog: pytest.LogCaptureFixture, topic: str) -> None:
    wait_until(
        lambda: (
            sum(f"rebalance of {topic}:" in each for each in said(caplog, logging.DEBUG)) >= LOOKS
        )
    )


def test_without_a_name_server_each_trouble_is_one_warning_with_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "rmq.client")
    address = f"127.0.0.1:{free_port()}"
    consumer = begun("g", "t", address)
    try:
        wait_for_looks(caplog, "t")
    finally:
        consumer.close()
    warnings = said(caplog, logging.WARNING)
    assert all(f"no name server answers: {address}" in line for line in warnings)
    assert [line.partition(":")[0] for line in warnings] == [
        "no name server answers", "group g, rebalance of t", "group g, rebalance of %RETRY%g",
    ], "the topic once as it starts; then each look's once"  # fmt: skip
    assert [line.rpartition("; ")[2] for line in warnings] == [
        "its queues are read as soon as there are some", "it is tried again", "it is tried again",
    ], "each says what comes next"  # fmt: skip


def test_a_topic_that_is_missing_is_told_once_and_a_retry_topic_not_at_all(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rmq.client")
    consumer = begun("quiet", "never-made", broker.namesrv_addr)
    try:
        wait_for_looks(caplog, "never-made")
    finally:
        consumer.close()
    warnings = said(caplog, logging.WARNING)
    assert len(warnings) == 2 and all("never-made" in line for line in warnings)
    assert "its queues are read as soon as there are some" in warnings[0]
    assert "rebalance of never-made" in warnings[1]
    assert warnings[1].endswith("; it is tried again")
    assert [line for line in said(caplog, logging.DEBUG) if "%RETRY%quiet" in line]


class TooMany:
    def consume_message(self, messages: Any, context: Any, more: Any) -> None: ...


class Fits:
    def consume_message(self, messages: Any, context: Any, more: Any = None) -> None: ...


def none() -> None: ...


def keyword_only(messages: Any, *, context: Any) -> None: ...


@pytest.mark.parametrize(
    "listener",
    [none, lambda messages: None, keyword_only, lambda a, b, c: None, TooMany(), TooMany],
    ids=["none", "one", "keyword-only", "three", "object", "class"],
)  # fmt: skip
def test_a_listener_of_another_number_of_arguments_is_refused(listener: Any) -> None:
    with pytest.raises(ConfigError, match=r"called with \(messages, context\), and cannot be"):
        PushConsumer("g", listener, namesrv_addr="127.0.0.1:1").start()


@pytest.mark.parametrize(
    "listener", [listen, Fits(), lambda *all: None, lambda m, c=1, **more: None, print]
)
def test_one_that_takes_them_is_not(listener: Any) -> None:
    with PushConsumer("g", listener, namesrv_addr=f"127.0.0.1:{free_port()}"):
        pass
