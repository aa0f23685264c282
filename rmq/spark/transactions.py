"""Transactions: the driver ends those of a batch: each row is committed once, or rolled back.

    halves.add(queue, reply)                     on executors: what the broker answered to a row
    end_all(access, options, [halves, ..], Outcome.COMMIT, again=True)

Rows are committed in the order of their unique keys, WINDOW at a time. A window begins only when
all of the one before is answered. So when a driver dies, either a row of the first window is
committed, or no row at all. Spark then runs the batch again, which sends new half messages with the
same unique keys. Before these are committed, the brokers are asked whether the topic itself has
messages with the keys of the first window. If it has one, they are asked the same before every
window. A row that is committed already is rolled back this time. The same questions are asked when
a broker goes away within a window.

This needs a batch whose tasks give the same rows in the same order when they run again, as plans
without a shuffle do, and brokers that keep an index (messageIndexEnable, the default).
"""

from __future__ import annotations

import enum
import itertools
import logging
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from rmq.arrow.access import Access, GuardedCluster
from rmq.arrow.options import Options
from rmq.client.blocking.connection import Connection
from rmq.codes import TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE, RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.format.message import decode_message_id, decode_messages

if TYPE_CHECKING:
    from rmq.format.fastjson import MessageQueue
    from rmq.format.remoting import Command

log = logging.getLogger("rmq.spark")
WINDOW = 64
ANSWER_SECONDS = 10.0
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
BUSY = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}
FOREVER = (1 << 63) - 1
Answer = TypeVar("Answer")
_HALF = struct.Struct(">32sqq")  # unique key, offset in the half queue, log offset


class Outcome(enum.IntEnum):
    """What becomes of a transaction, by RocketMQ's numbers."""

    COMMIT = TRANSACTION_COMMIT_TYPE
    ROLLBACK = TRANSACTION_ROLLBACK_TYPE


class EndError(RmqError):
    """A transaction of the batch could not be ended."""


@dataclass
class Halves(WriterCommitMessage):
    """What a task has sent. `halves` of a transactional write: (broker, topic) -> packed halves."""

    rows: int = 0
    halves: dict[tuple[str, str], bytearray] = field(default_factory=dict)

    def add(self, queue: MessageQueue, reply: Command) -> None:
        _, offset = decode_message_id(reply.fields.get("msgId", ""))
        key = reply.fields.get("transactionId", "").encode()
        packed = _HALF.pack(key, reply.int_field("queueOffset"), offset)
        self.halves.setdefault((queue.broker_name, queue.topic), bytearray()).extend(packed)


class Half(NamedTuple):
    """A half message. They sort by key: digest (the same in all of a write), partition, row."""

    key: bytes
    offset: int
    log_offset: int
    broker: str
    topic: str

    @property
    def unique(self) -> str:
        return self.key.rstrip(b"\0").decode()


def end_all(
    access: Access,
    options: Options,
    messages: Iterable[WriterCommitMessage | None],
    outcome: Outcome,
    again: bool = False,
) -> None:
    """Ends every half message; `again`: some of the rows may be committed already."""
    tasks = [sorted(_unpacked(each)) for each in messages if isinstance(each, Halves)]
    windows = [task[at : at + WINDOW] for task in sorted(filter(None, tasks))
               for at in range(0, len(task), WINDOW)]  # fmt: skip
    if not windows:
        return
    # A rollback need not wait long: nobody sees a half message, and the brokers forget it.
    rollback = outcome is Outcome.ROLLBACK
    patience_ms = options.send_timeout_ms if rollback else options.poll_timeout_ms
    ending = _Ending(access, options.producer_group, patience_ms)
    try:
        unsure = again and ending.begun(windows[0])
        for window in windows:
            ending.end(window, outcome, unsure)
    finally:
        ending.close()


def _unpacked(halves: Halves) -> Iterable[Half]:
    for (broker, topic), packed in halves.halves.items():
        for key, offset, log_offset in _HALF.iter_unpack(bytes(packed)):
            yield Half(key, offset, log_offset, broker, topic)


class _Ending:
    """Used by one thread of the driver."""

    def __init__(self, access: Access, group: str, patience_ms: int) -> None:
        self._access = access
        self._cluster: GuardedCluster = access.cluster()
        self._group = group
        self._patience_ms = patience_ms

    def close(self) -> None:
        self._cluster.close()

    def begun(self, window: Sequence[Half]) -> bool:
        return bool(self._patiently(lambda _: self.committed(window)))

    def end(self, window: Sequence[Half], outcome: Outcome, unsure: bool = False) -> None:
        """Ends all of the window; a broker that goes away meanwhile is waited for."""

        def action(attempt: int) -> None:
            ask = outcome is Outcome.COMMIT and (unsure or attempt > 0)
            self._end(window, outcome, self.committed(window) if ask else set())

        self._patiently(action)

    def _patiently(self, action: Callable[[int], Answer]) -> Answer:
        """The action's answer. It is begun anew after each loss of a broker, while time is left."""
        deadline, pause = time.monotonic() + self._patience_ms / 1000, FIRST_PAUSE
        for attempt in itertools.count():
            try:
                return action(attempt)
            except UnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                log.warning("waiting for brokers: %s", error)
            self._cluster.close()
            self._cluster = self._access.cluster()
            time.sleep(pause)
            pause = min(pause * 2, LAST_PAUSE)
        raise AssertionError("it has returned or raised")

    def _end(self, window: Sequence[Half], outcome: Outcome, done: set[bytes]) -> None:
        waiting: Counter[Connection] = Counter()
        for half in window:
            connection = self._broker(half.broker)
            connection.submit(
                RequestCode.END_TRANSACTION,
                {
                    "producerGroup": self._group, "topic": half.topic,
                    "tranStateTableOffset": half.offset, "commitLogOffset": half.log_offset,
                    "commitOrRollback": int(Outcome.ROLLBACK if half.key in done else outcome),
                    "fromTransactionCheck": False, "msgId": half.unique,
                    "transactionId": half.unique,
                },
            )  # fmt: skip
            waiting[connection] += 1
        for connection, count in waiting.items():
            for _ in range(count):
                reply = _answer(connection)
                if reply.code in BUSY:
                    raise UnreachableError(f"{connection.address}: {reply.remark}")
                if reply.code != ResponseCode.SUCCESS and outcome is Outcome.COMMIT:
                    raise EndError(f"a transaction of the batch could not be ended: {reply.remark}")

    def committed(self, halves: Sequence[Half]) -> set[bytes]:
        """The keys of those halves whose message is in its topic already, on any broker."""
        found: set[bytes] = set()
        for topic in {half.topic for half in halves}:
            mine = {half.unique: half.key for half in halves if half.topic == topic}
            for name in sorted(self._brokers(topic)):
                connection = self._broker(name)
                for unique in mine:
                    connection.submit(
                        RequestCode.QUERY_MESSAGE,
                        {
                            "topic": topic, "key": unique, "maxNum": 4, "beginTimestamp": 0,
                            "endTimestamp": FOREVER, "indexType": "U", "_UNIQUE_KEY_QUERY": True,
                        },
                    )  # fmt: skip
                for _ in mine:
                    reply = _answer(connection)
                    if reply.code == ResponseCode.SUCCESS:
                        keys = (each.properties.get("UNIQ_KEY") for each in
                                decode_messages(reply.body) if each.topic == topic)  # fmt: skip
                        found.update(mine[key] for key in keys if key in mine)
                    elif reply.code != ResponseCode.QUERY_NOT_FOUND:
                        raise RemoteError(reply.code, reply.remark or "no reason given")
        return found

    def _brokers(self, topic: str) -> set[str]:
        """The brokers of the topic; none, if it does not exist before the first commit."""
        route = self._cluster.if_known(partial(self._cluster.route, topic))
        return set() if route is None else {queue.broker_name for queue in route.readable()}

    def _broker(self, name: str) -> Connection:
        try:
            return self._cluster.broker(name)
        except RemoteError as error:  # not registered
            raise UnreachableError(str(error)) from None


def _answer(connection: Connection) -> Command:
    reply = connection.receive(ANSWER_SECONDS)
    if reply is None:
        connection.close()
        raise UnreachableError(f"{connection.address}: no answer in {ANSWER_SECONDS:g} s")
    return reply
