"""Consuming: topics, sends and a listener for tests of push consumers."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq import Admin, Message, MessageExt, Producer, PushConsumer
from rmq.base import clock
from rmq.format.fastjson import MessageQueue
from rmq.names import SCHEDULE_TOPIC

# The default of 3 s is soon over on a busy machine, even more so on a driven clock.
API_TIMEOUT_MS = 300_000
PARAMETERS: dict[str, Any] = {
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
    "consume_thread_min": 4,
    "consume_thread_max": 4,
    "mq_client_api_timeout": API_TIMEOUT_MS,
}


def create(address: str, topic: str, queues: int = 1) -> list[MessageQueue]:
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        return make_topic(admin, topic, queues).readable()


def send(address: str, messages: Sequence[Message]) -> None:
    with Producer("push-tests", namesrv_addr=address, send_msg_timeout=API_TIMEOUT_MS) as producer:
        for future in [producer.send_async(each) for each in messages]:
            assert future.result(HANG_S).is_ok


def numbers(topic: str, begin: int, end: int) -> list[Message]:
    return [Message(topic, f"{i}") for i in range(begin, end)]


class Kept:
    """A listener that keeps every message of every call, and asks `decide` what to return."""

    def __init__(self, decide: Callable[[list[MessageExt], Any], Any] | None = None) -> None:
        self._decide = decide
        self._lock = threading.Lock()
        self.calls: list[list[MessageExt]] = []
        self.times: list[float] = []
        self.threads: set[str] = set()

    def __call__(self, messages: list[MessageExt], context: Any) -> Any:
        with self._lock:
            self.calls.append(list(messages))
            self.times.append(clock.monotonic())
            self.threads.add(threading.current_thread().name)
        return self._decide(messages, context) if self._decide is not None else None

    @property
    def messages(self) -> list[MessageExt]:
        with self._lock:
            return [message for call in self.calls for message in call]

    @property
    def bodies(self) -> list[int]:
        return [int(each.body) for each in self.messages]

    def wait(self, count: int, timeout_s: float = HANG_S, *, still: bool = False) -> list[int]:
        """Waits until `count` messages have come; returns all bodies."""
        wait_until(lambda: len(self.messages) >= count, timeout_s, still=still)
        return self.bodies


def consumer_of(address: str, group: str, listener: Any, **changes: Any) -> PushConsumer:
    return PushConsumer(group, listener, namesrv_addr=address, **{**PARAMETERS, **changes})


def once_each(bodies: Sequence[int], begin: int, end: int) -> bool:
    return Counter(bodies) == Counter(range(begin, end))


def moment_ms() -> int:
    """A time that is later than all messages stored so far, and not later than the messages sent
    from now on over a new connection. (The first message on an old connection may be earlier, as
    the broker's turn may have begun before.)"""
    before = clock.now_ms()
    wait_until(lambda: clock.now_ms() > before)
    return clock.now_ms()


def wait_for_rest(address: str, *consumers: PushConsumer) -> None:
    """Waits until the consumers have read their queues to the end and consumed all of it. What has
    not come by then does not come, except messages that the broker still delays (sent_back)."""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:

        def is_at_rest() -> bool:
            queues = [queue for each in consumers for queue in each._client.process_queues()]
            return queues != [] and all(
                each.count == 0 and each.pull_offset == admin.max_offset(each.wire)
                for each in queues
            )

        wait_until(is_at_rest, still=True)


def refusals(consumer: PushConsumer) -> list[MessageQueue]:
    """A list of the queues that the consumer fails to lock. It grows from now on."""
    found: list[MessageQueue] = []
    locks = consumer._client.rebalance._locks
    lock = locks.lock

    def ask(queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        held = lock(queues)
        found.extend(queue for queue, is_held in held.items() if not is_held)
        return held

    locks.lock = ask  # type: ignore[method-assign]
    return found


def sent_back(address: str, level: int = 1) -> int:
    """How many messages the broker has ever stored for the delay of this level."""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        return admin.max_offset(MessageQueue(SCHEDULE_TOPIC, "broker-a", level - 1))


def committed(address: str, group: str, queues: Sequence[MessageQueue]) -> list[int | None]:
    """The committed offsets of the group, as the broker has them."""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        return [admin.committed_offset(group, each) for each in queues]
