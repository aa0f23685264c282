"""Pop rows: consumers that pop (RocketMQ 5) and acknowledge, beside those that pull.

Both read the same 160,000 messages of 8 queues (fewer with --quick) over and over, on 8 connections
with one open request each: pulls of 32, and pops of 32 with a batch ack for each. The messages stay
invisible for a second, so that the later costs of a pop are counted, too: its check point and its
ack are timed messages, which are delivered to the revive log and read there.

    outcome = POP_ROWS["pop"](bench)
"""

import time

from rounds import Outcome, Slice
from rows import Bench, Row, Sliced, compare_cpu, fill, in_rounds, pulls, topic_queues
from servers import Ours

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.load import control
from rmq.load.frames import Queue
from rmq.load.run import open_popper

GROUP = "bench-popper"
INVISIBLE_MS = 1000


class Pops(Sliced):
    """Pops and acks; before each slice the group goes back to the first message."""

    def __init__(self, bench: Bench, ours: Ours, queues: list[Queue], connection: Connection):
        self.connection, self.queues = connection, queues
        self.rewind()
        popper = open_popper(
            queues, ours.address, GROUP, invisible_ms=INVISIBLE_MS, connections=len(queues)
        )
        super().__init__(bench, ours, popper)
        end = time.monotonic() + bench.popped_s
        while time.monotonic() < end:  # until timers deliver as many messages as they get
            self.slice(0.1)

    def rewind(self) -> None:
        for queue in self.queues:
            self.connection.call(RequestCode.UPDATE_CONSUMER_OFFSET, {
                "consumerGroup": GROUP, "topic": queue.topic, "queueId": queue.queue_id,
                "commitOffset": 0,
            })  # fmt: skip

    def slice(self, seconds: float) -> Slice:
        self.rewind()
        return super().slice(seconds)


def pop(bench: Bench) -> Outcome:
    outcome = Outcome("pop", "pop of 32 and its batch ack: CPU-s/M to a pull of 32", 2.5)
    with bench.ours() as pulled, bench.ours(name="popped") as popped:
        names = [topic_queues(ours) for ours in (pulled, popped)]
        for ours, queues in zip((pulled, popped), names, strict=True):
            fill(bench, ours, queues, bench.popped_messages)
        with Connection(pulled.address) as one, Connection(popped.address) as other:
            control.subscribe(one, "bench-consumer", [names[0][0].topic])
            control.subscribe(other, GROUP, [names[1][0].topic])
            ends = [control.queue_range(one, queue) for queue in names[0]]
            rounds = in_rounds(
                bench,
                pulls(bench, pulled, names[0], ends).slice,
                Pops(bench, popped, names[1], other).slice,
            )
    return compare_cpu(outcome, rounds, "pull pop")


POP_ROWS: dict[str, Row] = {"pop": pop}
