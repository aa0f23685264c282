"""Rig: the producers and consumers of a workload, each in a thread of its own, and what they did.

A broker (each shard of one is a broker) has one producer with a connection for each of the file's
producers, and for each subscription one consumer with a connection for each of its consumers; as
the benchmark's driver for RocketMQ does, all topics of a broker go over the same ones.

Signed messages do not say when they were due (rmq/load/frames.py): with an account, nothing is
counted from end to end.

    with Rig(settings, targets, window=1024) as rig:
        rig.start(rate=50_000.0)
        rig.pace(60_000.0); rig.pause(); rig.resume()
        before = rig.figures(); ...; rig.figures() - before
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from cext.load.consumer import Consumer
from cext.load.producer import Producer
from rmq.client.blocking import credentials
from rmq.client.blocking.connection import Connection
from rmq.errors import UnreachableError
from rmq.load import control
from rmq.load.frames import Queue, SendShape, pull_frames, send_frames
from rmq.load.run import DRAIN_US, connect
from rmq.load.workload.durations import Durations
from rmq.load.workload.settings import Settings

SLICE_US = 20_000  # between two looks at what is wanted
PULL_MESSAGES = 32
GROUP = "bench-omb"


@dataclass(frozen=True)
class Figures:
    """Since the start, or of a period: the difference of two."""

    sent: int  # and acknowledged
    failed: int
    received: int
    publish: Durations  # from when a message was due
    delay: Durations  # from when a message was due until it went
    end_to_end: Durations

    def __sub__(self, other: Figures) -> Figures:
        names = [field.name for field in fields(self)]
        return Figures(*(getattr(self, name) - getattr(other, name) for name in names))


class Rig:
    """UnreachableError, RemoteError: of a broker that is not there, or refuses."""

    def __init__(self, settings: Settings, targets: list[control.Target], window: int) -> None:
        self.settings = settings
        self.payload = settings.payload()
        self.window = window
        self.brokers: dict[str, list[Queue]] = {}
        for target in targets:
            self.brokers.setdefault(target.address, []).append(target.queue)
        self.shares = {  # of the rate
            address: len(queues) / len(targets) for address, queues in self.brokers.items()
        }
        self.producers: list[tuple[str, Producer]] = []  # by address
        self.consumers: list[tuple[str, Consumer]] = []
        self.rate = 0.0
        self.unanswered = 0
        self._subscribed: list[tuple[Connection, str, set[str]]] = []
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        self._going = threading.Event()  # consumers pull
        self._going.set()
        self._errors: list[BaseException] = []
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._open.close()

    # ---- what is done

    def start(self, rate: float) -> None:
        """At so many messages a second."""
        self.rate = rate
        for address in self.brokers:
            for number in range(self.settings.subscriptions_per_topic):
                consumer = self._consumer(address, f"{GROUP}-{number:03d}")
                self.consumers.append((address, consumer))
        for address in self.brokers:
            producer = self._producer(address, rate * self.shares[address])
            self.producers.append((address, producer))
        for address, consumer in self.consumers:
            self._thread(self._pull, address, consumer)
        for address, producer in self.producers:
            self._thread(self._send, address, producer)

    def pace(self, rate: float) -> None:
        self.rate = rate

    def pause(self) -> None:
        """Consumers pull no more."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def beat(self) -> None:
        """Tells brokers again of subscriptions; they forget who has been silent for two minutes."""
        for connection, group, topics in self._subscribed:
            control.subscribe(connection, group, topics)

    def check(self) -> None:
        """Raises what ended a thread."""
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        """Nothing new is sent; what is open is waited for, some seconds."""
        self._ended.set()
        self._going.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    # ---- what was done

    def messages(self) -> tuple[int, int]:
        """Sent and received since the start: what is looked at often."""
        sent = sum(producer.stats()["messages"] for _, producer in self.producers)
        return sent, sum(consumer.stats()["messages"] for _, consumer in self.consumers)

    def figures(self) -> Figures:
        sent, received = self.messages()
        return Figures(
            sent=sent,
            failed=sum(sum(each.stats()["failures"].values()) for _, each in self.producers),
            received=received,
            publish=Durations.of_all(each.latency for _, each in self.producers),
            delay=Durations.of_all(each.delay for _, each in self.producers),
            end_to_end=Durations.of_all(each.end_to_end for _, each in self.consumers),
        )

    def failures(self) -> dict[int, int]:
        """By code, since the start, of sends and of pulls."""
        found: Counter[int] = Counter()
        for _, producer in self.producers:
            found.update(producer.stats()["failures"])
        for _, consumer in self.consumers:
            found.update(consumer.stats()["failures"])
        return dict(found)

    # ---- threads

    def _thread(self, work: Any, *given: Any) -> None:
        def guarded() -> None:
            try:
                work(*given)
            except BaseException as error:
                self._errors.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _send(self, address: str, producer: Producer) -> None:
        rate = self.rate
        while not self._ended.is_set() and producer.run(SLICE_US):
            if rate != self.rate:
                rate = self.rate
                producer.pace(rate * self.shares[address])
        if not self._ended.is_set():
            raise UnreachableError(f"{address} closed the connections of all producers")
        self.unanswered += producer.finish(DRAIN_US)

    def _pull(self, address: str, consumer: Consumer) -> None:
        while not self._ended.is_set():
            if not self._going.wait(SLICE_US / 1e6):
                continue
            if not consumer.run(SLICE_US):
                raise UnreachableError(f"{address} closed the connections of a subscription")

    # ---- loops

    def _producer(self, address: str, rate: float) -> Producer:
        queues, keys = self.brokers[address], self.settings.keys()
        if keys:
            each = max(len(keys), len(queues))
            keys = tuple(keys[number % len(keys)] for number in range(each))
        shape = SendShape(payload=self.payload, keys=keys, credentials=credentials.present())
        sockets = [connect(address) for _ in range(self.settings.producers_per_topic)]
        return Producer(send_frames(queues, shape), sockets, self.window, rate)

    def _consumer(self, address: str, group: str) -> Consumer:
        queues = self.brokers[address]
        connection = self._open.enter_context(Connection(address))
        topics = {queue.topic for queue in queues}
        control.subscribe(connection, group, topics)
        self._subscribed.append((connection, group, topics))
        frames = pull_frames(queues, group, PULL_MESSAGES, credentials=credentials.present())
        count = min(self.settings.consumer_per_subscription, len(queues))
        sockets = [connect(address) for _ in range(count)]
        ranges: list[tuple[int, int | None]] = [(0, None)] * len(queues)  # the topics are new
        return Consumer(frames, sockets, ranges, end_to_end=credentials.present() is None)
