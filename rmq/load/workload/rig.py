"""Rig: the producers and consumers of a workload at all brokers, each in a thread of its own.

A broker (each shard of a broker counts as one) has one publisher, with a connection for each of the
file's producers. It also has one subscription for each of the file's subscriptions, in a group of
its own and with a connection for each of its consumers. All topics of a broker use the same
connections. The benchmark's driver for RocketMQ is different: it has one producer in all, with a
connection to each broker, and for each topic, subscription and consumer a client with connections
of its own, in a group for each topic and subscription.

Signed messages cannot say when they were due (rmq/load/frames.py), so with an account nothing is
measured from end to end.

    with Rig(settings, targets, "bench-omb", sizes, rate=50_000.0) as rig:
        rig.start()
        rig.pace(60_000.0); rig.pause(); rig.resume()
        before = rig.figures(); ...; rig.figures() - before
        rig.stop(lambda: False)

stop(), pause() and resume() may be called only where no signal raises an exception
(rmq/system/held_signals.py).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from rmq.client.blocking import credentials
from rmq.load import control
from rmq.load.frames import Queue, SendShape, pull_frames, send_frames
from rmq.load.workload.durations import Durations
from rmq.load.workload.figures import Figures
from rmq.load.workload.publisher import Publisher
from rmq.load.workload.settings import Settings
from rmq.load.workload.sizes import Sizes
from rmq.load.workload.subscription import Subscription
from rmq.system.held_signals import held_signals

PULL_MESSAGES = 32
DRAIN_S = 5.0  # how long consumers may read at the end
POLL_S = 0.02


class Rig:
    def __init__(
        self, settings: Settings, targets: list[control.Target], group: str, sizes: Sizes,
        rate: float,
    ) -> None:  # fmt: skip
        """group: the prefix of the groups' names; rate: messages a second.

        UnreachableError: a broker is not there. ConfigError: too many files are open."""
        self.settings = settings
        self.rate = rate
        self._payload = settings.payload()
        self._brokers: dict[str, list[Queue]] = {}
        for target in targets:
            self._brokers.setdefault(target.address, []).append(target.queue)
        self._shares = {  # address -> the broker's share of the rate
            address: len(queues) / len(targets) for address, queues in self._brokers.items()
        }
        self.publishers: list[Publisher] = []
        self.subscriptions: list[Subscription] = []
        self._sending: list[threading.Thread] = []
        self._pulling: list[threading.Thread] = []
        self._sent_all, self._ended, self._going = (threading.Event() for _ in range(3))
        self._going.set()  # while it is set, consumers pull
        self._errors: list[BaseException] = []
        self._connect(sizes, group)

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    # ---- what is done

    def start(self) -> None:
        for subscription in self.subscriptions:
            self._pulling.append(self._thread(subscription.run, self._ended, self._going))
        for publisher in self.publishers:
            self._sending.append(self._thread(publisher.run, self._sent_all, self._ended))

    def pace(self, rate: float) -> None:
        self.rate = rate
        for publisher in self.publishers:
            publisher.pace(rate * self._shares[publisher.address])

    def pause(self) -> None:
        """Makes consumers stop pulling."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def check(self) -> None:
        """Raises the error that has ended a thread, if there is one."""
        if self._errors:
            raise self._errors[0]

    def stop(self, hurry: Callable[[], bool]) -> None:
        """Stops sending; then waits for open requests, and for messages that consumers have not got
        yet, some seconds each, or until `hurry` returns true."""
        self._sent_all.set()
        while any(each.is_alive() for each in self._sending) and not hurry():
            time.sleep(POLL_S)
        self.resume()
        until = time.monotonic() + DRAIN_S
        while self.behind() and not self._errors and time.monotonic() < until and not hurry():
            time.sleep(POLL_S)

    def end(self) -> None:
        """Ends the threads and closes the connections, without more waiting for messages. May be
        called again after an interrupt."""
        with held_signals():
            for event in (self._sent_all, self._ended, self._going):
                event.set()
        _join(self._sending)
        _join(self._pulling)
        for publisher in self.publishers:
            publisher.close()
        for subscription in self.subscriptions:
            subscription.close()

    # ---- what was done

    def messages(self) -> tuple[int, int]:
        """Messages sent and received since the start: the part of figures() that is read often."""
        sent = sum(each.producer.stats()["messages"] for each in self.publishers)
        return sent, sum(each.received for each in self.subscriptions)

    def due(self, now_s: float) -> float:
        """The number of messages due since the start, at a moment of the monotonic clock."""
        return sum(publisher.due(now_s) for publisher in self.publishers)

    def behind(self) -> int:
        """The number of messages that consumers have not got yet."""
        sent, received = self.messages()
        return max(0, self.settings.subscriptions_per_topic * sent - received)

    @property
    def overdue(self) -> int:
        """Messages that were due and not sent when the rig was stopped."""
        return sum(publisher.overdue for publisher in self.publishers)

    @property
    def unanswered(self) -> int:
        """Requests that were still without an answer when the rig was stopped."""
        return sum(publisher.unanswered for publisher in self.publishers)

    def figures(self) -> Figures:
        seconds = time.monotonic()
        sent, received = self.messages()
        producers = [publisher.producer for publisher in self.publishers]
        failed_sends, failed_pulls = Counter[int](), Counter[int]()
        for producer in producers:
            failed_sends.update(producer.stats()["failures"])
        for subscription in self.subscriptions:
            failed_pulls.update(subscription.failures)
        return Figures(
            seconds=seconds,
            wanted=self.due(seconds),
            sent=sent,
            received=received,
            failed_sends=failed_sends,
            failed_pulls=failed_pulls,
            publish=Durations.of_all(producer.service for producer in producers),
            delay=Durations.of_all(producer.delay for producer in producers),
            due=Durations.of_all(producer.latency for producer in producers),
            end_to_end=sum((each.end_to_end for each in self.subscriptions), Durations.none()),
        )

    # ---- made at the start

    def _connect(self, sizes: Sizes, group: str) -> None:
        signed_by = credentials.present()
        for address, queues in self._brokers.items():
            for number in range(self.settings.subscriptions_per_topic):
                name = group_name(group, number)
                frames = pull_frames(queues, name, PULL_MESSAGES, credentials=signed_by)
                self.subscriptions.append(
                    Subscription(address, frames, sizes.consumers, is_timed=signed_by is None)
                )
        for address, queues in self._brokers.items():
            keys = self.settings.keys(len(queues))
            shape = SendShape(payload=self._payload, keys=keys, credentials=signed_by)
            frames, rate = send_frames(queues, shape), self.rate * self._shares[address]
            self.publishers.append(Publisher(address, frames, sizes.producers, sizes.window, rate))

    def _thread(self, run: Callable[..., None], *events: threading.Event) -> threading.Thread:
        def guarded() -> None:
            try:
                run(*events)
            except BaseException as error:
                self._errors.append(error)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread


def group_name(group: str, number: int) -> str:
    return f"{group}-{number:03d}"


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
    threads.clear()
