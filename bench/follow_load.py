"""Follow load: sends, and a consumer that reads them as they come, for RocketMQ's protocol.

    load = Follow(peer, Shape(name="tail", title="", kind="follow", window=64), queues)
    load.turn(3.0, rate=10_000.0)      a Turn; its latencies are from when a message was due until
                                       its pull's answer is there

The consumer has one connection, and on it an open pull for each queue, which the broker holds until
there is a message. In a row with order it holds the locks of its queues, as a consumer in order
does. A turn begins at the ends of the queues, and is over when all stored messages were received.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from comparison import Turn
from peer import Shape
from rocketmq_loads import GROUP, PATIENCE_S, PULL_BATCH, Broker, Read, failures_of, latency_us

from cext.load.consumer import Consumer
from cext.load.producer import Producer
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.format import fastjson
from rmq.load import control
from rmq.load.cpu import CpuMeter
from rmq.load.frames import Queue, pull_frames, send_frames
from rmq.load.run import connect

SLICE_US = 20_000
SUSPEND_MS = 15_000


class Follow(Read):
    def __init__(self, peer: Broker, shape: Shape, queues: list[Queue]) -> None:
        super().__init__(peer, shape, queues)
        if shape.ordered:
            self.notes = ("each send waits for the one before; a consumer holds the queue's lock",)

    def turn(self, seconds: float, rate: float) -> Turn:
        limit = int(rate * seconds)
        addresses = [self.peer.address] * self.shape.connections
        sockets = [connect(address) for address in addresses]
        producer = Producer(
            send_frames(self.queues, self.shaped()), sockets, self.shape.window, rate, limit
        )
        with self.consumer(end_to_end=rate > 0) as consumer:
            consumer.run(SLICE_US)  # so that the broker has its pulls before the first message
            meter, began = CpuMeter(self.peer.pids()), time.monotonic()
            self.run(producer, consumer, seconds, limit)
            took, cpu = time.monotonic() - began, meter.seconds()
            sent, taken = producer.stats(), consumer.stats()
            failures = Counter(failures_of(sent, producer.finish(0)))
            failures.update(failures_of(taken, 0))
            if missing := sent["acked"] - taken["messages"]:
                failures["did not come"] = missing
        latency = latency_us(consumer.end_to_end) if rate else {}
        return Turn(took, taken["messages"], cpu, self.peer.resident(), dict(failures), latency)

    def run(self, producer: Producer, consumer: Consumer, seconds: float, limit: int) -> None:
        """Sends what is due (with a limit), or as many messages as possible in `seconds`. Returns
        when all were received, or after `seconds` and PATIENCE_S."""
        patience = time.monotonic() + seconds + PATIENCE_S

        def send() -> None:
            if limit:
                while producer.run(SLICE_US) and time.monotonic() < patience:
                    pass
            else:
                producer.run(int(seconds * 1e6))
                producer.finish(int(PATIENCE_S * 1e6))

        with ThreadPoolExecutor(1) as other:
            sends = other.submit(send)
            while not sends.done() or consumer.stats()["messages"] < producer.stats()["acked"]:
                consumer.run(SLICE_US)
                if time.monotonic() > patience:
                    break
            sends.result()

    @contextmanager
    def consumer(self, *, end_to_end: bool) -> Iterator[Consumer]:
        group = f"{GROUP}-tail"
        with self.subscribed([group]) as connection:
            if self.shape.ordered:
                self.lock(connection, group)
            ends = [control.queue_range(connection, queue)[1] for queue in self.queues]
            frames = pull_frames(self.queues, group, PULL_BATCH, suspend_ms=SUSPEND_MS)
            sockets = [connect(self.peer.address)]
            yield Consumer(frames, sockets, [(end, None) for end in ends], end_to_end=end_to_end)

    def lock(self, connection: Connection, group: str) -> None:
        """Locks the queues for the group. RuntimeError: another client has a lock."""
        body = {
            "clientId": f"127.0.0.1@bench-{group}", "consumerGroup": group,
            "mqSet": [{"topic": queue.topic, "brokerName": queue.broker_name,
                       "queueId": queue.queue_id} for queue in self.queues],
        }  # fmt: skip
        reply = connection.call(RequestCode.LOCK_BATCH_MQ, {}, fastjson.dumps(body))
        held = fastjson.loads_object(reply.body).get("lockOKMQSet") or []
        if len(held) != len(self.queues):
            raise RuntimeError(f"{len(held)} of {len(self.queues)} queues were locked")
