"""For tests of push consumers: topics, sends, and a listener that keeps what it got."""

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

# Of a machine that others use: 3 s are soon over, where a driven clock passes above all.
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
    """A listener: keeps every message of every call, and asks `decide` what to return."""

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
        """The bodies when so many messages have come."""
        wait_until(lambda: len(self.messages) >= count, timeout_s, still=still)
        return self.bodies


def consumer_of(address: str, group: str, listener: Any, **changes: Any) -> PushConsumer:
    return PushConsumer(group, listener, namesrv_addr=address, **{**PARAMETERS, **changes})


def once_each(bodies: Sequence[int], begin: int, end: int) -> bool:
    return Counter(bodies) == Counter(range(begin, end))


def moment_ms() -> int:
    """A time after all that is stored by now, and not after what is sent from then on over a new
    connection, or second over an old one: the broker's turn may have begun before."""
    before = clock.now_ms()
    wait_until(lambda: clock.now_ms() > before)
    return clock.now_ms()


def wait_for_rest(address: str, *consumers: PushConsumer) -> None:
    """Returns when they have read their queues to the end and dealt with all of it: what has not
    come then does not come. (What waits at the broker for its time: sent_back.)"""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:

        def is_at_rest() -> bool:
            queues = [queue for each in consumers for queue in each._client.process_queues()]
            return queues != [] and all(
                each.count == 0 and each.pull_offset == admin.max_offset(each.wire)
                for each in queues
            )

        wait_until(is_at_rest, still=True)


def refusals(consumer: PushConsumer) -> list[MessageQueue]:
    """Grows by each queue that the consumer asks a lock for from now on, and does not get."""
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
    """How many messages the broker was ever given to send again after the delay of this level."""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        return admin.max_offset(MessageQueue(SCHEDULE_TOPIC, "broker-a", level - 1))


def committed(address: str, group: str, queues: Sequence[MessageQueue]) -> list[int | None]:
    """Where the group goes on, by the broker's word."""
    with Admin(namesrv_addr=address, mq_client_api_timeout=API_TIMEOUT_MS) as admin:
        return [admin.committed_offset(group, each) for each in queues]
