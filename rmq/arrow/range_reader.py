"""Range reader: ranges of queues read from their brokers.

    for batch in read_ranges(plan, ranges, addresses): ...

When a connection is lost, or a broker restarts or has moved, the range goes on behind the last
message given out. For pollTimeoutMs that is tried at any replica that answers: at a slave while the
master is away, or where the broker suggests it (replica_choice.py). A broker that repairs a damaged
queue answers that it has no message there, and that the queue goes on behind; if it cannot repair
the queue for now, it answers that it is busy. Either way it is asked again, for the same time. If a
message or queue of a slave is damaged, the master is asked for it.

Messages that are gone (expired, a queue that was cut, or a hole in one) are a DataLossError unless
failOnDataLoss=false. A connection that ends its range cleanly is kept for the next range that this
process reads, as Spark reuses its workers.
"""

from __future__ import annotations

import json
import logging
import os
import re
import ssl
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from cext.arrow.decoder import Decoder
from cext.arrow.puller import Outcome, Puller
from rmq.arrow.access import Access, GuardedConnection
from rmq.arrow.batches import BatchMaker
from rmq.arrow.queue_ranges import QueueRange
from rmq.arrow.queues import PULL_GROUP, DataLossError, describe
from rmq.arrow.read_plan import DamagedMessageError, ReadPlan
from rmq.arrow.replica_choice import ReplicaChoice
from rmq.codes import FLAG_SUBSCRIPTION, VERSION, RequestCode, ResponseCode
from rmq.errors import ProtocolError, RemoteError, UnreachableError
from rmq.format import fastjson

log = logging.getLogger("rmq.arrow")
FIRST_PAUSE, LAST_PAUSE = 0.05, 2.0
END_PATIENCE = 3.0  # a broker that has just restarted may not know its last messages yet
PULL_MESSAGES = 1024
# A damaged record, and a queue entry that the broker could not repair.
_DAMAGED = re.compile(r"queue \d+ (?:offset (\d+)\) is damaged|cannot be read at offset (\d+))")
_BUSY = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE}  # starting or stopping
_idle: dict[tuple[int, Access, str], GuardedConnection] = {}


def read_ranges(
    plan: ReadPlan, ranges: Sequence[QueueRange], addresses: Mapping[str, str]
) -> Iterator[Any]:
    """The record batches of all ranges; one may hold rows of two ranges."""
    decoder = plan.decoder()
    columns = decoder.columns
    maker = BatchMaker(plan.schema, columns)
    known = dict(addresses)
    for queue_range in ranges:
        key = queue_range.key
        columns.place(key.topic, key.broker, key.queue_id, queue_range.number)
        for _ in _RangeReader(plan, queue_range, known, decoder).run():
            yield maker.batch()
    if columns.rows:
        yield maker.batch()


class _RangeReader:
    """One range, over as many connections as it takes."""

    def __init__(
        self, plan: ReadPlan, queue_range: QueueRange, addresses: dict[str, str], decoder: Decoder
    ) -> None:
        assert plan.access is not None
        self._access = plan.access
        self._plan = plan
        self._range = queue_range
        self._decoder = decoder
        self._offset = queue_range.start
        self._request = _request_parts(plan, queue_range)
        self._choice = ReplicaChoice(plan.access, queue_range.key, addresses)
        self._pause = FIRST_PAUSE

    def run(self) -> Iterator[None]:
        """Yields whenever the columns are full."""
        self._moved_on()
        while self._offset < self._range.end:
            try:
                link = self._connect()
            except UnreachableError as error:
                self._wait(error)
                continue
            clean = False
            try:
                clean = yield from self._pull(link)
            except UnreachableError as error:
                self._wait(error)
            finally:
                if clean:
                    _keep(link, self._access)
                else:
                    link.close()

    def _pull(self, link: GuardedConnection) -> Generator[None, None, bool]:
        """Reads over one connection until the range ends, and returns whether the connection can be
        used for another range."""
        plan, queue_range = self._plan, self._range
        tls = self._access.tls
        link.socket.settimeout(plan.options.poll_timeout_ms / 1000 if tls else 0.0)
        puller = Puller(
            self._decoder, link.fileno(), self._request, self._offset, queue_range.end,
            plan.options.poll_timeout_ms,
            link.socket.recv_into if tls else None,
            link.socket.sendall if tls else None,
            self._sign if self._access.access_key is not None else None,
        )  # fmt: skip
        while True:
            outcome = puller.fill()
            if puller.next_offset > self._offset:
                self._moved_on()
            self._offset = puller.next_offset
            if outcome == Outcome.BATCH:
                yield
                self._since = time.monotonic()  # the time that the caller took does not count
                if self._choice.moves(link.address, puller.suggested_broker_id):
                    return False
            elif outcome == Outcome.END:
                return puller.in_step
            elif outcome == Outcome.LOST:
                raise UnreachableError(f"{link.address}: {_reason(puller.error)}")
            else:
                self._decide(outcome, puller, link)
                puller.seek(self._offset)

    def _decide(self, outcome: int, puller: Puller, link: GuardedConnection) -> None:
        """Moves self._offset on, or waits, or raises."""
        queue_range = self._range
        if outcome == Outcome.DAMAGED:
            offset, reason = self._decoder.problem or (self._offset, "damaged")
            raise DamagedMessageError(
                f"{describe(queue_range.key)}, offset {offset}: {reason};"
                " mode=permissive or mode=dropmalformed reads on"
            )
        if outcome == Outcome.OFFSET_MOVED and puller.moved_to > self._offset:
            if puller.code == ResponseCode.PULL_NOT_FOUND:
                self._leave_slave(link, "the slave's queue has a hole")
            self._lost(self._offset, min(puller.moved_to, queue_range.end), puller)
            self._offset = min(puller.moved_to, queue_range.end)
        elif outcome in (Outcome.NOTHING_THERE, Outcome.OFFSET_MOVED):
            self._nothing_there(puller, link)
        else:
            self._refused(puller, link)

    def _nothing_there(self, puller: Puller, link: GuardedConnection) -> None:
        if puller.min_offset <= self._offset < puller.max_offset:
            # The offset is inside the queue: the broker repairs this part of it from the log.
            if self._choice.is_known_slave(link.address):
                raise UnreachableError(f"{link.address}: the slave's queue is being mended")
            if self._waited_s > self._patience:
                raise UnreachableError(f"{link.address}: the queue is still being mended")
            self._pause_once()
            return
        # The queue ends before the range does.
        if self._choice.is_slave(link.address):
            raise UnreachableError(f"{link.address}: the slave does not have all of the queue")
        if self._waited_s < min(END_PATIENCE, self._patience):
            time.sleep(0.1)
            return
        self._lost(self._offset, self._range.end, puller)
        self._offset = self._range.end

    def _refused(self, puller: Puller, link: GuardedConnection) -> None:
        remark = _remark(puller.remark)
        damaged = _DAMAGED.search(remark)
        offset = int(damaged[1] or damaged[2]) if damaged is not None else -1
        if offset >= self._offset or puller.code in _BUSY:
            self._leave_slave(link, f"the slave: {remark}")
        if offset >= self._offset:
            try:
                self._decoder.damage(offset, remark[:100])
            except ValueError:
                raise DamagedMessageError(
                    f"{describe(self._range.key)}: {remark};"
                    " mode=permissive or mode=dropmalformed reads on"
                ) from None
            self._offset = min(offset + 1, self._range.end)
        elif puller.code in _BUSY:
            self._wait(UnreachableError(f"{link.address}: {remark}"))
        elif puller.code == ResponseCode.TOPIC_NOT_EXIST or (
            puller.code == ResponseCode.INVALID_PARAMETER and remark.startswith("queueId[")
        ):  # the topic, or this queue of it, was taken away
            self._lost(self._offset, self._range.end, puller)
            self._offset = self._range.end
        else:
            raise RemoteError(puller.code, f"{describe(self._range.key)}: {remark}")

    def _leave_slave(self, link: GuardedConnection, text: str) -> None:
        """Raises UnreachableError if the broker is a slave: the master is asked next."""
        if self._choice.is_slave(link.address):
            raise UnreachableError(f"{link.address}: {text}")

    def _lost(self, start: int, end: int, puller: Puller) -> None:
        text = f"{describe(self._range.key)}: messages {start} to {end - 1} are gone"
        if puller.max_offset >= 0:
            text += f" (the queue has {puller.min_offset} to {puller.max_offset})"
        if self._plan.options.fail_on_data_loss:
            raise DataLossError(f"{text}; failOnDataLoss=false reads what is left")
        log.warning("%s; going on without them", text)

    @property
    def _patience(self) -> float:
        return float(self._plan.options.poll_timeout_ms) / 1000

    @property
    def _waited_s(self) -> float:
        return time.monotonic() - self._since

    def _moved_on(self) -> None:
        self._since = time.monotonic()
        self._pause = FIRST_PAUSE

    def _wait(self, error: UnreachableError) -> None:
        """Pauses, longer each time; raises the error when pollTimeoutMs is over."""
        if self._waited_s > self._patience:
            raise UnreachableError(
                f"{describe(self._range.key)}: {error}; given up after pollTimeoutMs="
                f"{self._plan.options.poll_timeout_ms}"
            ) from None
        self._pause_once()
        self._choice.failed()

    def _pause_once(self) -> None:
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, LAST_PAUSE)

    def _connect(self) -> GuardedConnection:
        address = self._choice.address()
        kept = _idle.pop((os.getpid(), self._access, address), None)
        if kept is not None and _is_alive(kept):
            return kept
        return GuardedConnection(address, self._access)

    def _sign(self, offset: int, opaque: int) -> bytes:
        """A pull with an account's signature, which covers its offset and is made for each pull."""
        fields = self._access.sign(_request_fields(self._plan, self._range, offset))
        text = _request_text(fields, opaque).encode()
        return (len(text) + 4).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text


def _request_fields(plan: ReadPlan, queue_range: QueueRange, offset: int) -> dict[str, Any]:
    options = plan.options
    expression = options.sql if options.sql is not None else " || ".join(plan.tags) or "*"
    return {
        "consumerGroup": options.group or PULL_GROUP,
        "topic": queue_range.key.topic,
        "queueId": str(queue_range.key.queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": str(PULL_MESSAGES),
        "maxMsgBytes": str(options.fetch_bytes),
        "sysFlag": str(FLAG_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
        "subscription": expression,
        "expressionType": "TAG" if options.sql is None else "SQL92",
        "bname": queue_range.key.broker,
    }


def _request_text(fields: Mapping[str, str], opaque: int) -> str:
    return json.dumps(
        {
            "code": int(RequestCode.PULL_MESSAGE), "extFields": dict(fields), "flag": 0,
            "language": "PYTHON", "opaque": opaque, "serializeTypeCurrentRPC": "JSON",
            "version": VERSION,
        },
        separators=(",", ":"),
    )  # fmt: skip


def _request_parts(plan: ReadPlan, queue_range: QueueRange) -> tuple[bytes, bytes, bytes]:
    """The request's JSON before, between and behind the queue offset and the opaque number."""
    offset, opaque = 4_000_000_000_000_000_007, 2_000_000_011
    text = _request_text(_request_fields(plan, queue_range, offset), opaque).encode()
    before, _, rest = text.partition(f'"{offset}"'.encode())
    between, _, after = rest.rpartition(f'"opaque":{opaque}'.encode())
    return before + b'"', b'"' + between + b'"opaque":', after


def _keep(link: GuardedConnection, access: Access) -> None:
    """Keeps one connection to each broker, or closes this one if another thread kept its own."""
    if _idle.setdefault((os.getpid(), access, link.address), link) is not link:
        link.close()


def _is_alive(link: GuardedConnection) -> bool:
    """Whether an idle connection can be used. One with something to read cannot: it has been closed
    by the broker, or an answer came that nobody waits for."""
    try:
        link.socket.settimeout(0.0)
        link.socket.recv(1)
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
        return True
    except OSError:
        pass
    link.close()
    return False


def _remark(header: bytes) -> str:
    try:
        return str(fastjson.loads_object(header).get("remark") or "no reason given")
    except ProtocolError:
        return "no reason given"


def _reason(error: int) -> str:
    return os.strerror(error).lower() if error else "the broker closed the connection"
