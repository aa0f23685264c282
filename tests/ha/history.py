"""History: what clients of a cluster did and were told; each event is a line (tests/ha/checker.py).

    with Writer(folder, "producer-0") as history:
        history.add(Sending(message="producer-0/17", topic="t"))
        history.add(Stored(message="producer-0/17", topic="t", broker="a", queue_id=0, offset=42))
    for event in read([folder / "producer-0.jsonl"]): event.place

Each process writes one file, with its events in the order in which they were added. `at` is
CLOCK_MONOTONIC, which all processes of a machine share. A message has the same id in all events,
which is also in its body, and is sent once: a sender that tries again makes a new message.

Example of a line: {"event":"stored","at":81234567,"process":"producer-0","message":"producer-0/17",
"topic":"t","broker":"a","queue_id":0,"offset":42}
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

import msgspec

FLUSH_BYTES = 1 << 16
ELSEWHERE = -1  # an offset that is not in the message's own queue, or not known
LINE_BITS = 40


class HistoryError(Exception):
    """A history that cannot be read; the text names file and line."""


class Event(msgspec.Struct, tag_field="event", omit_defaults=True, kw_only=True, gc=False):
    at: int = 0  # ns
    process: str = ""
    place: int = 0  # file << LINE_BITS | line; set by read(), not written to files


class Sending(Event, tag="sending"):
    """A message is about to be sent."""

    message: str
    topic: str
    kind: str = "plain"  # or ordered, delayed, timed, transaction
    key: str = ""  # messages of one key keep their order
    batch: str = ""  # the same text for all messages of one request


class Stored(Event, tag="stored"):
    """The send was answered SEND_OK. If the message is kept in another topic first (delayed, timed,
    transaction), its offset is ELSEWHERE."""

    message: str
    topic: str
    broker: str
    queue_id: int = 0
    offset: int = ELSEWHERE
    log_offset: int = ELSEWHERE
    acker: str = ""  # address of the broker that stored it
    epoch: int = -1  # masterEpoch under which it was answered, when that is known


class Refused(Event, tag="refused"):
    """The broker refused the send."""

    message: str
    reason: str = ""


class Unknown(Event, tag="unknown"):
    """No answer, or one that leaves open whether the message is safe (FLUSH_SLAVE_TIMEOUT ..)."""

    message: str
    reason: str = ""


class Decided(Event, tag="decided"):
    """How the local transaction of a message ended."""

    message: str
    commit: bool


class Subscribed(Event, tag="subscribed"):
    """The group must get every message of the topic in the end."""

    group: str
    topic: str


class QueueEvent(Event):
    """An event of one queue, as one group sees it."""

    group: str
    topic: str
    broker: str
    queue_id: int
    offset: int


class Delivered(QueueEvent, tag="delivered"):
    """A reader was given a message. Its offset is ELSEWHERE when it came out of a retry topic."""

    message: str
    how: str  # pull: one reader a queue; push: in order; any: in no order; final: all, at the end
    log_offset: int = ELSEWHERE


class Worked(QueueEvent, tag="worked"):
    """A member of a group in order has worked on messages of the queue since `began`; the last one
    has this offset."""

    began: int


class Assigned(QueueEvent, tag="assigned"):
    """A reader begins in this queue, or begins again, at this offset."""


class Committed(QueueEvent, tag="committed"):
    """The group's offset was set. `acked`: the broker has answered. `since`: when the client was
    made, so what it knows of the brokers is no older; 0: not known."""

    asked: int
    acked: bool = True
    since: int = 0


class OffsetRead(QueueEvent, tag="offset_read"):
    """The broker's answer to the question, put at `asked`, how far the group is; ELSEWHERE: it has
    no offset yet. `since`: as with Committed."""

    asked: int
    since: int = 0


class Held(QueueEvent, tag="held"):
    """Each broker of the name, asked by itself behind `asked`, had at least this offset."""

    asked: int


class Reset(QueueEvent, tag="reset"):
    """An operator moves the group to this offset, by a request at `asked`; `acked`: it was
    answered."""

    asked: int
    acked: bool = True


class TopicChanged(Event, tag="topic_changed"):
    """A topic was made, or deleted, by a request at `asked`. Each name is made once."""

    topic: str
    asked: int
    deletes: bool = False
    acked: bool = True


class TopicsSeen(Event, tag="topics_seen"):
    """Which of such topics a broker has at the end."""

    broker: str  # its address
    topics: tuple[str, ...]


class Drained(Event, tag="drained"):
    """The final reader has read a queue from its first offset to its end."""

    topic: str
    broker: str
    queue_id: int
    begin: int
    end: int


class InSync(Event, tag="in_sync"):
    """A controller's answer to the question, put at `asked`, which replicas are in sync."""

    broker: str  # the name that they share
    asked: int
    master_epoch: int
    set_epoch: int
    members: tuple[str, ...]  # addresses
    master: str = ""  # "": there is none


class LogEnd(Event, tag="log_end"):
    """A broker's answer to the question, put at `asked`, where its log ends."""

    broker: str
    address: str
    asked: int
    end: int


class Started(Event, tag="started"):
    """A broker was started again: until all is Settled it may have offsets as of its files."""

    broker: str  # its address


class Settled(Event, tag="settled"):
    """All replicas are in sync, and the name servers name the master. Who looks for it from now on
    finds it."""


class Fault(Event, tag="fault"):
    """What a nemesis did, from `at` until the event with `ends`.

    loses_ms                offsets committed less than loses_ms before the fault, or until its end,
                            may be lost (docs/promises.md, docs/replicas.md)
    until_settled           that lasts until all is Settled: clients may ask another broker so long
    loses_copies            offsets of that time may be lost even if each broker had them
    loses_locks             the next master does not know who has the queues that are read in order
    hides_ms                a broker that answers meanwhile may not know of resets since hides_ms
                            before the fault; once that is over they count again. -1: it knows them
    fences_ms               no lease is granted during the fault: what is sent more than fences_ms
                            after its begin must not be acknowledged before its end
    fenced                  the address of the only broker that gets no lease; "": none gets one
    """

    name: str
    target: str = ""
    ends: bool = False
    loses_ms: int = 0
    until_settled: bool = False
    loses_copies: bool = False
    loses_locks: bool = False
    hides_ms: int = -1
    fences_ms: int = 0
    fenced: str = ""


AnyEvent = (
    Sending | Stored | Refused | Unknown | Decided | Subscribed | Delivered | Assigned | Committed
    | Worked | OffsetRead | Held | Reset | TopicChanged | TopicsSeen | Drained | InSync | LogEnd
    | Started | Settled | Fault
)  # fmt: skip
E = TypeVar("E", bound=Event)


class Writer:
    """A history's file. Any thread may call add(), which does not wait for the disk: another thread
    writes."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self.path = folder / f"{process}.jsonl"
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._encoder = msgspec.json.Encoder()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._write, name="history", daemon=True)
        self._thread.start()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, event: Event) -> None:
        """Adds an event. Its `at` is now, unless it has one."""
        event.at = event.at or time.monotonic_ns()
        event.process = self.process
        self._events.put(event)

    def close(self) -> None:
        """Returns when everything that was added is in the file; OSError when it is not."""
        self._events.put(None)
        self._thread.join()
        os.close(self._descriptor)
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        lines = bytearray()
        while (event := self._events.get()) is not None:
            lines += self._encoder.encode(event) + b"\n"
            if len(lines) >= FLUSH_BYTES or self._events.empty():
                self._flush(lines)
        self._flush(lines)

    def _flush(self, lines: bytearray) -> None:
        try:
            while lines and self._failure is None:
                del lines[: os.write(self._descriptor, lines)]
        except OSError as error:
            self._failure = error
        lines.clear()


def read(paths: Iterable[Path]) -> Iterator[AnyEvent]:
    """The events of all files, those of each file in order, with their places. A last line that was
    cut off when its process was killed is left out."""
    decoder = msgspec.json.Decoder(AnyEvent)
    names: dict[str, str] = {}
    for number, path in enumerate(paths):
        data = path.read_bytes()
        for line, text in enumerate(data.split(b"\n")[:-1], 1):
            try:
                event = decoder.decode(text)
            except msgspec.DecodeError as error:
                raise HistoryError(f"{path}:{line}: no event: {error}") from None
            event.place = number << LINE_BITS | line
            _share(event, names)
            yield event


def _share(event: AnyEvent, names: dict[str, str]) -> None:
    """Lets events share the texts of names that come again and again."""
    event.process = names.setdefault(event.process, event.process)
    if isinstance(event, Delivered | Stored):
        event.topic = names.setdefault(event.topic, event.topic)
        event.broker = names.setdefault(event.broker, event.broker)


def place_text(paths: list[Path], place: int) -> str:
    """file:line of an event."""
    number = place >> LINE_BITS
    return f"{paths[number].name}:{place & ((1 << LINE_BITS) - 1)}"


def of_kind(events: Iterable[AnyEvent], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]
