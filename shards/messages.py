"""Bus messages: typed messages, one version number, strict decoding.

Every message is a msgspec Struct; its class name is its tag. On the wire it is

    byte 0      PROTOCOL, 1 at present
    byte 1..    MessagePack, the fields in the order they stand here, tag first

so encode(Beat(3)) is b"\\x01" + msgpack(["Beat", 3]). A frame of another version or shape raises
BusError, and the receiver drops it with a log line: so a shard of another release that still runs
cannot half-understand a message. New fields go to the end of a message and get a default; any other
change needs a new PROTOCOL.

Three ways a message travels:

    request      DEALER -> ROUTER -> DEALER, answered by exactly one reply (or Failed)
    notice       DEALER -> ROUTER, not answered
    publication  PUB -> SUB, numbered; a gap in the numbers makes the shard ask for what it missed

No user message travels over the bus, except for a reply (324, 325) whose producer is connected to
another shard than its consumer: an Ask carries it. The data path does not use the bus.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from rmq.errors import RmqError
from rmq.limits import BUS_FRAME_BYTES_MAX

PROTOCOL = 1

# Kinds of items that shards share. A name is unique within its kind.
TOPIC, GROUP, SETTING, MEMBERS = "topic", "group", "setting", "members"
KINDS = frozenset({TOPIC, GROUP, SETTING, MEMBERS})


class BusError(RmqError):
    """A frame of the bus that is not a message, or a request that failed on the other side."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages."""


class Stamp(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The version of an item: the larger one wins, on every shard alike.

    counter is a clock in ms that grows with every change (a change takes max(now, largest seen +
    1)); origin is the shard that made the change, so two shards never make the same stamp.
    """

    counter: int = 0
    origin: int = -1


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One thing that all shards hold alike. value: its JSON; None: it was deleted."""

    kind: str
    name: str
    stamp: Stamp
    value: bytes | None


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The version of an item that a shard has."""

    kind: str
    name: str
    stamp: Stamp


# ---- joining, and catching up


class Hello(Message, frozen=True):
    """A shard's first request: I am shard `index`. Answer: Welcome."""

    index: int
    token: str
    pid: int
    name: str  # brokerName
    port: int
    started_ms: int
    settings_digest: str  # of the settings it was started with
    serving: bool = False  # whether it serves already, which it tells a new supervisor


class HelloCommand(Message, frozen=True):
    """A command's (rmq broker ..) first request. Answer: Welcome."""

    token: str
    pid: int


class Welcome(Message, frozen=True):
    """epoch names this start of the supervisor, seq the last publication before this answer."""

    epoch: int
    seq: int
    counter: int  # the largest counter of any stamp the supervisor has seen


class Sync(Message, frozen=True):
    """Request of a shard that joins or has missed something: these versions I have."""

    have: list[Known]


class SyncReply(Message, frozen=True):
    """newer: items that the shard lacks; wanted: items that it must send in a Change; seq as in
    Welcome."""

    seq: int
    newer: list[Item]
    wanted: list[Known]


class Change(Message, frozen=True):
    """Request of a shard: these items changed here. Answer: Changed, when all shards that are
    prompt have taken it over, at the latest after the router's CHANGE_WAIT_S."""

    items: list[Item]


class Changed(Message, frozen=True):
    """applied: shards that have taken the change over; late: the others."""

    applied: list[int]
    late: list[int]


class Applied(Message, frozen=True):
    """Notice of a shard: its tables contain everything up to publication seq, and the name servers
    it is registered at know it (or do not answer)."""

    seq: int


class Ready(Message, frozen=True):
    """Notice of a shard: clients can find me at the name servers. With serving=False it is a
    request (answer: Done): my broker ends, my process opens its log anew and then says Hello.
    Until then I send no beats."""

    index: int
    serving: bool = True


class Beat(Message, frozen=True):
    """Notice of a shard, each second: my control side is alive."""

    index: int


# ---- publications


class News(Message, frozen=True):
    """Items that changed somewhere."""

    epoch: int
    seq: int
    items: list[Item]


class Pulse(Message, frozen=True):
    """Sent each second: the last publication was seq. A shard that is behind sends a Sync; one that
    sees another epoch says Hello again."""

    epoch: int
    seq: int


# ---- questions to shards


class Stats(Message, frozen=True):
    """Request to a shard: its numbers now. Answer: StatsReply."""


class StatsReply(Message, frozen=True):
    """counters: ShardCore.stats() under its own names (messages_in, bytes_in, log_durable, ..).
    gauges: what the control side knows (topics, groups, consumer_groups, connections, cpu_s,
    bus_messages_sent, ..). Names are only ever added."""

    index: int
    name: str
    address: str
    pid: int
    started_ms: int
    counters: dict[str, int]
    gauges: dict[str, float]


class Ask(Message, frozen=True):
    """Request to the supervisor: put this remoting request (a frame without its length bytes) to
    the shards `to` (empty: all but the one that asks). Answer: Answers. The supervisor passes the
    Ask on to each of these shards, which answers it with one Answer.

    first: one Answer of code 0 is enough: the supervisor then does not wait for the others, and
    does not ask shards that are silent on the bus."""

    to: list[int]
    frame: bytes
    timeout_ms: int = 1000
    first: bool = False
    client: str = ""  # address of the client that asks; empty: none is given


class Answer(Message, frozen=True):
    index: int
    frame: bytes
    code: int = -1  # the one in the frame


class Answers(Message, frozen=True):
    answers: list[Answer]
    silent: list[int]  # shards that are down or did not answer in time


class Permission(Message, frozen=True):
    """Request to a shard: its brokerPermission from now on (drain: 4, reading only). Answer: Done.

    As in RocketMQ this takes the shard's queues off the routes for sends; clients with an old route
    may still send for half a minute. With refuse=True even their sends are refused."""

    value: int
    refuse: bool = False


class TicketSecret(Message, frozen=True):
    """Request to a shard: the secret by which it makes TLS tickets from now on, so that a session
    can be resumed at every shard. Answer: Done."""

    secret: bytes

    def __repr__(self) -> str:
        return "TicketSecret()"


class Unconsumed(Message, frozen=True):
    """Request to a shard: which messages would be out of reach without it? Answer:
    UnconsumedReply."""


class UnconsumedReply(Message, frozen=True):
    """Counts of messages nobody has consumed, by "topic@group" (group empty: the topic has no
    group)."""

    index: int
    messages: dict[str, int]


# ---- questions of the command line to the supervisor


class Status(Message, frozen=True):
    """Answer: StatusReply."""


class ShardStatus(msgspec.Struct, frozen=True, array_like=True):
    """One shard as the supervisor sees it."""

    index: int
    name: str
    # starting | serving | silent | reopening | draining | drained | waiting | stopping | given up
    state: str
    pid: int  # 0: no process
    address: str
    store: str
    cores: list[int]  # processors its reactor may use
    node: int  # -1: not bound to one
    restarts: int
    up_s: float
    reason: str  # why it does not serve, or why it was last restarted


class StatusReply(Message, frozen=True):
    pid: int
    version: str
    started_ms: int
    shards: list[ShardStatus]


class AllStats(Message, frozen=True):
    """Stats of all shards at once. Answer: AllStatsReply."""


class AllStatsReply(Message, frozen=True):
    stats: list[StatsReply]
    silent: list[int]


class Drain(Message, frozen=True):
    """Takes the permission to write off a shard (on), or gives it back. Answer: Done."""

    index: int
    on: bool = True


class Restart(Message, frozen=True):
    """Stops a shard cleanly and starts it anew; a shard that was given up is tried again. Answer:
    Done when it serves again."""

    index: int


class Shrink(Message, frozen=True):
    """Removes the last shards until `shards` are left. Refused (Failed) while one of them holds
    unconsumed messages, unless discard says that these may be lost. Answer: Done."""

    shards: int
    discard: bool = False


class Done(Message, frozen=True):
    text: str = ""


class Failed(Message, frozen=True):
    """The answer to a request that could not be done."""

    reason: str


Any_ = (
    Hello | HelloCommand | Welcome | Sync | SyncReply | Change | Changed | Applied | Ready | Beat
    | News | Pulse | Stats | StatsReply | Ask | Answer | Answers | Permission | TicketSecret
    | Unconsumed | UnconsumedReply | Status | StatusReply | AllStats | AllStatsReply | Drain
    | Restart | Shrink | Done | Failed
)  # fmt: skip
M = TypeVar("M", bound=Message)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Any_)
_VERSION = bytes([PROTOCOL])


def encode(message: Message) -> bytes:
    return _VERSION + _encoder.encode(message)


def decode(frame: bytes) -> Message:
    """The message in a frame; BusError when there is none."""
    if len(frame) > BUS_FRAME_BYTES_MAX:
        raise BusError(f"a frame of {len(frame)} bytes, at most {BUS_FRAME_BYTES_MAX} are allowed")
    if frame[:1] != _VERSION:
        raise BusError(f"version {frame[:1].hex() or 'missing'} of the bus, not {PROTOCOL}")
    try:
        message: Message = _decoder.decode(frame[1:])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BusError(f"not a message: {error}") from None
    return message


def expect(message: Message, kind: type[M]) -> M:
    """The reply, which must be of type `kind`; BusError with the reason when the request failed."""
    if isinstance(message, kind):
        return message
    if isinstance(message, Failed):
        raise BusError(message.reason)
    raise BusError(f"{type(message).__name__} came where {kind.__name__} was expected")
