"""PopConsumer against an embedded broker."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from support.calm_clock import calm_seconds
from support.consuming import API_TIMEOUT_MS, create, numbers, once_each, send
from support.driven_clock import DrivenClock
from support.waiting import HANG_S, wait_until

from rmq import ClosedError, ConfigError, Message, MessageError, MessageExt, PopConsumer
from rmq.pytest_plugin import RunningBroker


def popper(broker: RunningBroker, group: str, **changes: Any) -> PopConsumer:
    given = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
             "mq_client_api_timeout": API_TIMEOUT_MS}  # fmt: skip
    return PopConsumer(group, namesrv_addr=broker.namesrv_addr, **{**given, **changes})


def gather(consumer: PopConsumer, count: int, timeout_s: float = HANG_S) -> list[MessageExt]:
    """Polls and acknowledges until so many messages have come."""
    found: list[MessageExt] = []
    until = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < until:
        got = consumer.poll(500)
        consumer.ack(got)
        found += got
    assert len(found) == count
    return found


def bodies(messages: list[MessageExt]) -> list[int]:
    return [int(each.body) for each in messages]


def test_many_consumers_share_one_queue(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "pop-share")
    send(broker.namesrv_addr, numbers("pop-share", 0, 300))
    found: list[int] = []
    lock = threading.Lock()
    by_consumer: Counter[int] = Counter()
    together = threading.Barrier(3)

    def read(number: int) -> None:
        with popper(broker, "pop-share", pop_batch_nums=8) as consumer:
            consumer.subscribe("pop-share")
            until = time.monotonic() + HANG_S
            while len(found) < 300 and time.monotonic() < until:
                got = consumer.poll(300)
                consumer.ack(got)
                with lock:
                    is_first = bool(got) and not by_consumer[number]
                    found.extend(bodies(got))
                    by_consumer[number] += len(got)
                if is_first:
                    together.wait(HANG_S)  # so that nobody takes all before the others have some

    threads = [threading.Thread(target=read, args=(i,)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert once_each(found, 0, 300)
    assert len([count for count in by_consumer.values() if count]) == 3


def test_what_is_not_acknowledged_comes_again(
    broker_clock: DrivenClock, driven_broker: RunningBroker
) -> None:
    create(driven_broker.namesrv_addr, "pop-again")
    send(driven_broker.namesrv_addr, numbers("pop-again", 0, 3))
    with popper(driven_broker, "pop-again", pop_invisible_time=300_000) as consumer:
        consumer.subscribe("pop-again")
        began = broker_clock.monotonic()
        first = consumer.poll(9_000)
        while len(first) < 3:
            first += consumer.poll(9_000)
        consumer.ack([each for each in first if each.body != b"1"])
        broker_clock.advance(290)
        with broker_clock.passing():
            (again,) = gather(consumer, 1)
            assert (again.body, again.reconsume_times, again.topic) == (b"1", 1, "pop-again")
            assert broker_clock.monotonic() - began > 299.9
            assert consumer.poll(4_000) == []


def test_the_invisible_time_can_be_changed(
    broker_clock: DrivenClock, driven_broker: RunningBroker
) -> None:
    create(driven_broker.namesrv_addr, "pop-change")
    send(driven_broker.namesrv_addr, numbers("pop-change", 0, 2))
    with popper(driven_broker, "pop-change", pop_invisible_time=300_000) as consumer:
        consumer.subscribe("pop-change")
        first = consumer.poll(9_000)
        while len(first) < 2:
            first += consumer.poll(9_000)
        one, two = sorted(first, key=lambda each: each.body)
        handle = consumer._client.handle(one)
        consumer.change_invisible_time(one, 1_000)
        assert consumer._client.handle(one) != handle
        with broker_clock.passing():
            (again,) = gather(consumer, 1)
            assert (again.body, again.reconsume_times) == (b"0", 1)
        consumer.change_invisible_time(two, 120_000)
        consumer.ack(two)
        with broker_clock.passing():
            assert consumer.poll(4_000) == []


def test_a_waiting_poll_gets_what_is_sent_at_once(
    clock: DrivenClock, broker: RunningBroker
) -> None:
    create(broker.namesrv_addr, "pop-wait", 4)

    def send_then() -> None:
        wait_until(lambda: consumer._client._in_flight, still=True)
        send(broker.namesrv_addr, numbers("pop-wait", 7, 8))

    with popper(broker, "pop-wait") as consumer:
        consumer.subscribe("pop-wait")
        began, calm = clock.monotonic(), calm_seconds()
        with clock.passing():
            assert consumer.poll(300) == []
        assert clock.monotonic() - began >= 0.3
        assert calm_seconds() - calm < 4.5  # a wait at the broker would take 5 s or more
        sender = threading.Thread(target=send_then)
        sender.start()
        calm = calm_seconds()
        assert bodies(consumer.poll(60_000)) == [7]
        assert calm_seconds() - calm < 10  # the broker's wait would take longer
        sender.join()


def test_polls_that_do_not_wait_get_what_is_there(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "pop-now", 2)
    send(broker.namesrv_addr, numbers("pop-now", 0, 10))
    found: list[MessageExt] = []
    with popper(broker, "pop-now") as consumer:
        consumer.subscribe("pop-now")

        def comes() -> bool:
            found.extend(consumer.poll(0))
            return len(found) >= 10

        wait_until(comes)
        consumer.ack(found)
    assert once_each(bodies(found), 0, 10)


def test_tags_and_sql_choose_messages(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "pop-filter", 2)
    tags = ["Aa", "BB", "c", "d"]  # the first two have the same hash in Java
    send(broker.namesrv_addr, [Message("pop-filter", f"{i}", tags[i % 4], properties={"n": str(i)})
                               for i in range(80)])  # fmt: skip
    with popper(broker, "pop-tags") as consumer:
        consumer.subscribe("pop-filter", "Aa || c")
        assert sorted(bodies(gather(consumer, 40))) == list(range(0, 80, 2))
        assert consumer.poll(300) == []
    with popper(broker, "pop-sql") as consumer:
        consumer.subscribe("pop-filter", sql="n >= 60 AND TAGS = 'd'")
        assert sorted(bodies(gather(consumer, 5))) == [63, 67, 71, 75, 79]


def test_closing_ends_a_poll(broker: RunningBroker) -> None:
    create(broker.namesrv_addr, "pop-close")
    consumer = popper(broker, "pop-close").start()
    consumer.subscribe("pop-close")
    ends: list[BaseException] = []

    def read() -> None:
        try:
            consumer.poll(30_000)
        except ClosedError as error:
            ends.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    wait_until(lambda: consumer._client._in_flight)  # it has asked, and waits
    consumer.close()
    wait_until(lambda: ends)
    thread.join()


def test_wrong_uses_are_refused(broker: RunningBroker) -> None:
    with pytest.raises(ConfigError):
        PopConsumer("g", pop_invisible_time=1)
    with popper(broker, "pop-wrong") as consumer:
        with pytest.raises(ConfigError, match="max_messages"):
            consumer.poll(0, 33)
        for wrong in (0, -1, 4_999, 5e3):
            with pytest.raises(ConfigError, match="invisible_ms"):
                consumer.poll(0, invisible_ms=wrong)  # type: ignore[arg-type]
        assert consumer.poll(0) == []
        sent = Message("pop-wrong", b"x")
        with pytest.raises((MessageError, AttributeError, TypeError)):
            consumer.ack(sent)  # type: ignore[arg-type]


def test_messages_that_nobody_took_in_time_are_told(
    clock: DrivenClock, broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Popped messages that were not taken in time must be reported: they come again, and each time
    they are closer to the dead letters."""
    create(broker.namesrv_addr, "pop-late")
    send(broker.namesrv_addr, numbers("pop-late", 0, 3))
    with popper(broker, "pop-late") as consumer:
        consumer.subscribe("pop-late")
        consumer._client.ask(0.0)
        wait_until(lambda: len(consumer._client._ready) == 3)
        clock.advance(31)
        assert consumer._client.take() == []
    assert "group pop-late: 3 popped messages are left to others" in caplog.text
