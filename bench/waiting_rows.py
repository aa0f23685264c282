"""Waiting rows: delay levels, timed messages, transactions, and 50 M pending timers.

A message that waits is stored twice: where it waits and, when it is due or committed, in its topic.
So the server's CPU is counted until the last message is in its topic, and divided by the number of
messages. It is compared with plain sends of the same client (1 connection, window 64).

    outcome = WAITING_ROWS["delay"](bench)
"""

import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rounds import Outcome, middle
from rows import Addressed, Bench, Row, messages_held, topic_queues
from servers import Ours

from cext.store.log.commit_log import CommitLog
from cext.store.timers.timer_keeper import TimerKeeper
from cext.testing.timer_probe import DrivenTimers
from rmq.codes import FLAG_ONE_WAY, TRANSACTION_COMMIT_TYPE, RequestCode
from rmq.format.remoting import Command, encode, field_texts
from rmq.load.cpu import CpuMeter, resident_bytes
from rmq.load.frames import Queue, SendShape, send_frames
from rmq.load.run import open_producer
from rmq.names import HALF_TOPIC

DELAYED, TIMED, HALVES = "bench-delayed", "bench-timed", "bench-halves"
HALF_QUEUE = Queue(HALF_TOPIC, 0)
PATIENCE = 60.0
HEAP_ENTRIES = 262_144
YEAR_MS = 365 * 86_400_000
QUEUE_ENTRY = struct.Struct(">qiq")

Finish = Callable[[int], None]


class Held(Addressed, Protocol):
    """A broker of RocketMQ's protocol whose queues and files are looked at."""

    @property
    def store(self) -> Path: ...

    def check_alive(self) -> None: ...


def cost(bench: Bench, ours: Ours, names: list[Queue], shape: SendShape, finish: Finish) -> float:
    """CPU-s/M of sends for bench.seconds, until finish(acked) has returned."""
    loop = open_producer(send_frames(names, shape), [ours.address], 64)
    meter = CpuMeter(ours.pids())
    loop.run(int(bench.seconds * 1e6))
    loop.finish(5_000_000)
    stats = loop.stats()
    if stats["failures"] or not stats["acked"]:
        raise RuntimeError(f"{shape.more!r}: {stats}")
    finish(int(stats["acked"]))
    return meter.seconds() / stats["acked"] * 1e6


def await_held(ours: Held, names: list[Queue], messages: int) -> None:
    end = time.monotonic() + PATIENCE
    while messages_held(ours, names) < messages:
        ours.check_alive()
        if time.monotonic() > end:
            raise RuntimeError(f"{messages_held(ours, names):,} of {messages:,} came")
        time.sleep(0.1)


def came_after(ours: Ours, names: list[Queue], before: int) -> Finish:
    """A Finish that waits until the queues hold `before` messages and the acked ones."""
    return lambda acked: await_held(ours, names, before + acked)


def against_plain(bench: Bench, outcome: Outcome, topic: str, shape: SendShape) -> Outcome:
    """Rounds of plain sends and of sends to `topic`, all of which must arrive there."""
    plain: list[float] = []
    waiting: list[float] = []
    with bench.ours() as ours:
        names = topic_queues(ours)
        targets = topic_queues(ours, name=topic)
        for _ in range(bench.rounds):
            plain.append(cost(bench, ours, names, SendShape(bench.body_bytes), lambda _: None))
            finish = came_after(ours, targets, messages_held(ours, targets))
            waiting.append(cost(bench, ours, targets, shape, finish))
    return compared(outcome, plain, waiting)


def compared(outcome: Outcome, plain: list[float], waiting: list[float]) -> Outcome:
    outcome.values = [b / a for a, b in zip(plain, waiting, strict=True)]
    outcome.notes.append(f"{middle(waiting):.3g} CPU-s/M, plain {middle(plain):.3g}")
    outcome.details = {"plain": plain, "waiting": waiting}
    return outcome


def delay(bench: Bench) -> Outcome:
    outcome = Outcome("delay", "delay level 1, sent and delivered: CPU-s/M to plain", 2.5)
    return against_plain(
        bench, outcome, DELAYED, SendShape(bench.body_bytes, more="DELAY\x011\x02")
    )


def timed(bench: Bench) -> Outcome:
    """Timed messages; unlike delay levels, they also pay for the files of timers."""
    outcome = Outcome("timed", "TIMER_DELAY_MS=1000, sent and delivered: to plain", 3.5)
    more = "TIMER_DELAY_MS\x011000\x02"
    return against_plain(bench, outcome, TIMED, SendShape(bench.body_bytes, more=more))


# ------------------------------------------------------------------- transactions


def await_half_places(ours: Held, first: int, count: int) -> list[int]:
    """Log offsets of half messages, once the files of their queue have all of them."""
    end = time.monotonic() + PATIENCE
    while len(places := half_places(ours, first, count)) < count:
        if time.monotonic() > end:
            raise RuntimeError(f"{len(places):,} of {count:,} half messages are in files")
        time.sleep(0.1)
    return places


def half_places(ours: Held, first: int, count: int) -> list[int]:
    """Log offsets of those half messages whose queue entries are in the files already."""
    folder = ours.store / "consumequeue" / HALF_QUEUE.topic / "0"
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*")))
    entries = data[first * QUEUE_ENTRY.size : (first + count) * QUEUE_ENTRY.size]
    return [offset for offset, size, _ in QUEUE_ENTRY.iter_unpack(entries) if size]


def commits(first: int, places: list[int], group: str) -> bytes:
    """One-way END_TRANSACTION requests, as the Java client sends them; only the last one asks for
    an answer."""
    frames = []
    for number, place in enumerate(places):
        fields = field_texts({
            "producerGroup": group, "tranStateTableOffset": first + number,
            "commitLogOffset": place, "commitOrRollback": TRANSACTION_COMMIT_TYPE,
            "fromTransactionCheck": False, "msgId": "x", "transactionId": "x",
        })  # fmt: skip
        last = number == len(places) - 1
        frames.append(encode(Command(code=RequestCode.END_TRANSACTION,
                                     flag=0 if last else FLAG_ONE_WAY, opaque=1, language="JAVA",
                                     fields=fields)))  # fmt: skip
    return b"".join(frames)


def transaction(bench: Bench) -> Outcome:
    outcome = Outcome("transaction", "half message and commit: CPU-s/M to plain", 3.5)
    group = "bench-producer"
    shape = SendShape(
        bench.body_bytes, more=f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02", sys_flag=4
    )
    plain: list[float] = []
    waiting: list[float] = []
    # This row waits for the queue's files, which a real producer does not; the long timeout keeps
    # checks back out of that wait.
    with bench.ours(transactionTimeOut="600000") as ours:
        names = topic_queues(ours)
        targets = topic_queues(ours, name=HALVES)

        def end_all(acked: int) -> None:
            places = await_half_places(ours, first_half, acked)
            with socket.create_connection(("127.0.0.1", ours.port)) as connection:
                connection.sendall(commits(first_half, places, group))
                await_held(ours, targets, ended + acked)

        ended = 0
        for _ in range(bench.rounds):
            plain.append(cost(bench, ours, names, SendShape(bench.body_bytes), lambda _: None))
            first_half = messages_held(ours, [HALF_QUEUE])
            waiting.append(cost(bench, ours, targets, shape, end_all))
            ended = messages_held(ours, targets)
    return compared(outcome, plain, waiting)


# ------------------------------------------------------------------- pending timers


def pend(directory: Path, scratch: Path, count: int) -> None:
    """Stores `count` timers at random times within three years from tomorrow on, by a keeper."""
    scratch.mkdir()
    log = CommitLog(str(scratch), 1 << 20, 1 << 20, 1 << 16)
    log.load()
    log.set_end(0)
    keeper = TimerKeeper(log, str(directory), HEAP_ENTRIES)
    keeper.open(0, 0, 0)
    timers = DrivenTimers(keeper)
    tomorrow = time.time_ns() // 1_000_000 + 86_400_000
    done = 0
    while done < count:
        timers.load()
        some = min(timers.room, count - done)
        timers.push_many(some, tomorrow, 3 * YEAR_MS, done * 400)
        done += some
        while not timers.seal(0, 0):
            timers.step()
    keeper.finish()
    while timers.step() == 0:
        pass
    keeper.finish()


def resident_mib(ours: Ours) -> float:
    return sum(resident_bytes(pid) for pid in ours.pids()) / (1 << 20)


def pending(bench: Bench) -> list[Outcome]:
    """Puts the timers into the broker's files; then kills it in each round while other timed
    messages are under way, and measures its restart."""
    millions = bench.pending_timers / 1e6
    memory = Outcome("pending", f"{millions:g} M pending timers: resident, with name server", 256.0)
    memory.unit = " MiB"
    again = Outcome("pending", f"{millions:g} M pending timers: kill -9 to first ack", 2.0)
    again.unit = " s"
    loaded: list[float] = []
    with bench.ours(name="pending") as ours:
        targets = topic_queues(ours, name=TIMED)
        ours.stop()
        store = ours.directory / "store"
        began = time.monotonic()
        pend(store / "rmqTimers" / "wall", ours.directory / "scratch", bench.pending_timers)
        took = time.monotonic() - began
        files = list((store / "rmqTimers" / "wall").glob("*.run"))
        size = sum(path.stat().st_size for path in files)
        ours.restart()
        ours.await_ack()
        shape = SendShape(bench.body_bytes, more="TIMER_DELAY_MS\x011000\x02")
        for _ in range(bench.rounds):
            wanted = messages_held(ours, targets)
            cost(bench, ours, targets, shape, came_after(ours, targets, wanted))
            loaded.append(resident_mib(ours))
            open_producer(send_frames(targets, shape), [ours.address], 64).run(200_000)
            ours.kill()
            ours.restart()
            again.values.append(ours.await_ack())
            memory.values.append(resident_mib(ours))
    memory.notes.append(
        f"{len(files)} files, {size / 1e9:.2f} GB, made in {took:.0f} s; after others were sent "
        f"and delivered {middle(loaded):.0f} MiB, mapped log files among them"
    )
    memory.details = {"after_load_mib": loaded}
    return [memory, again]


WAITING_ROWS: dict[str, Row] = {row.__name__: row for row in (delay, timed, transaction, pending)}
