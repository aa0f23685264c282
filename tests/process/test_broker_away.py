"""Consumers log once that a broker is away, and once that it is back.

They learn that it is back from a pull's answer, which a broker without new messages holds for up to
20 s. So time is driven here, by one clock for consumers and broker.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import broker_process
from support.consuming import PARAMETERS, create, numbers, send
from support.driven_clock import DrivenClock, driven_clock, process_clock
from support.waiting import wait_until

from rmq import PopConsumer, PullConsumer, PushConsumer


def pushed(seen: list[bytes], **given: Any) -> tuple[Any, Callable[[], object]]:
    def listen(messages: Any, context: Any) -> None:
        seen.extend(each.body for each in messages)

    return PushConsumer("away", listen, **PARAMETERS, **given), lambda: None


def pulled(seen: list[bytes], **given: Any) -> tuple[Any, Callable[[], object]]:
    consumer = PullConsumer("away", consume_from_where="CONSUME_FROM_FIRST_OFFSET", **given)
    return consumer, lambda: seen.extend(each.body for each in consumer.poll(10))


def popped(seen: list[bytes], **given: Any) -> tuple[Any, Callable[[], object]]:
    consumer = PopConsumer("away", consume_from_where="CONSUME_FROM_FIRST_OFFSET", **given)
    return consumer, lambda: seen.extend(each.body for each in consumer.poll(10))


@pytest.fixture
def shared_clock(tmp_path: Path) -> Iterator[DrivenClock]:
    with process_clock(tmp_path) as clock, driven_clock(clock):
        yield clock


@pytest.mark.parametrize("kind", [pushed, pulled, popped])
def test_a_broker_that_is_away_is_one_warning(
    shared_clock: DrivenClock, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    caplog.set_level(logging.DEBUG, "rmq.client")
    seen: list[bytes] = []

    def lines(text: str) -> list[str]:
        return [each.levelname for each in caplog.records if text in each.getMessage()]

    environment = shared_clock.environment
    with broker_process(tmp_path, (), environment) as broker:
        ports = ("--port", str(broker.port), "--namesrv-port", broker.namesrv.rpartition(":")[2])
        create(broker.namesrv, "orders", 8)
        consumer, ask = kind(seen, namesrv_addr=broker.namesrv)
        with consumer:
            consumer.subscribe("orders")
            send(broker.namesrv, numbers("orders", 0, 1))
            wait_until(lambda: ask() or seen == [b"0"])
            caplog.clear()
            broker.stop(signal.SIGKILL)
            wait_until(lambda: ask() or "WARNING" in lines("reading from broker-a:"))
            wait_until(lambda: ask() or lines("cannot connect").count("DEBUG") > 10)
            aloud = lines("reading from broker-a:").count("WARNING")
            assert aloud <= 4, "nine queues are one trouble, told again when its reason changes"
            with broker_process(tmp_path, ports, environment) as again:
                wait_until(lambda: ask() or lines("reading from broker-a: all is well again"))
                send(again.namesrv, numbers("orders", 1, 2))
                wait_until(lambda: ask() or b"1" in seen)
