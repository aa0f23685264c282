"""HA handshake: what master and slave say to each other before the log flows, in controller mode.

    slave   i32 1 · i16 an empty log begins with the last file · i16 learner · i64 broker id
    master  i32 1 · i32 bytes of epochs · i64 end of its log · i32 its epoch
            then for each epoch i32 epoch · i64 where it starts

The forms are RocketMQ's (AutoSwitchHAClient, AutoSwitchHAConnection). Learner is 0 or 1 there. A
slave of rmq that is no learner says 2, which RocketMQ's masters take for no; so masters of rmq can
tell slaves that copy their tables as soon as these change (exchange.py) from slaves that poll for
them. From the epochs of both sides the slave finds how much of its log the master has too
(epochs.py), cuts the rest, and reports where its log ends.

Each side reads the other's handshake and not a byte more, because the reactor takes over the socket
then. A slave of RocketMQ repeats its handshake every 5 seconds until it is answered, so the
master's reactor may receive it once more before the first report. The first four bytes tell them
apart: 1 begins a handshake, 2 a report.

Example: handshake_as_slave(sock, broker_id=2) -> MasterHandshake(log_end=4096, last_epoch=3,
epochs=..)
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from rmq.base.deadline import within
from rmq.broker.replication.epochs import ENTRIES_MAX, EPOCH_MAX, NO_EPOCH, Epoch, Epochs
from rmq.broker.replication.ha_socket import HASocket
from rmq.broker.replication.identity import FIRST_ID
from rmq.errors import ProtocolError, UnreachableError

TIMEOUT_S = 10.0  # a RocketMQ master that got it in pieces waits for the next, sent 5 s later

T = TypeVar("T")

_HANDSHAKE = 1
RMQ = 2  # sent instead of 0 by a slave of rmq that is no learner
_SLAVE = struct.Struct(">ihhq")
_MASTER = struct.Struct(">iiqi")
_EPOCH = struct.Struct(">iq")
SLAVE_BYTES = _SLAVE.size
MASTER_BYTES = _MASTER.size  # without its epochs, which follow


class SlaveHandshake(msgspec.Struct, frozen=True):
    broker_id: int
    is_learner: bool = False
    from_last_file: bool = False
    is_rmq: bool = False  # not known of a learner


class MasterHandshake(msgspec.Struct, frozen=True):
    """`last_epoch` may be newer than all of `epochs`: RocketMQ's file lags behind after an epoch in
    which nothing was written."""

    log_end: int
    last_epoch: int
    epochs: Epochs


async def handshake_as_slave(
    sock: HASocket,
    broker_id: int,
    is_learner: bool = False,
    from_last_file: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> MasterHandshake:
    """The slave's side, on a connected, non-blocking socket. ProtocolError: the other side is no
    such master; UnreachableError: it hung up, or is silent."""
    hello = encode_slave(SlaveHandshake(broker_id, is_learner, from_last_file, is_rmq=True))
    return await _in_time(_handshake_as_slave(sock, hello), "the master", timeout_s)


async def handshake_as_master(
    sock: HASocket, log_end: int, epochs: Epochs, timeout_s: float = TIMEOUT_S
) -> SlaveHandshake:
    """The master's side: reads who the slave is, and answers; errors as of handshake_as_slave()."""
    return await _in_time(_handshake_as_master(sock, log_end, epochs), "the slave", timeout_s)


async def _handshake_as_slave(sock: HASocket, hello: bytes) -> MasterHandshake:
    await sock.sendall(hello)  # in one piece, because RocketMQ's master reads no other
    head = await _exactly(sock, MASTER_BYTES)
    return decode_master(head, await _exactly(sock, epoch_bytes(head)))


async def _handshake_as_master(sock: HASocket, log_end: int, epochs: Epochs) -> SlaveHandshake:
    found = decode_slave(await _exactly(sock, SLAVE_BYTES))
    await sock.sendall(encode_master(log_end, epochs))
    return found


async def _in_time(work: Awaitable[T], who: str, timeout_s: float) -> T:
    try:
        return await within(work, timeout_s)
    except asyncio.TimeoutError:
        raise UnreachableError(f"{who} did not shake hands within {timeout_s:g} s") from None
    except OSError as error:
        raise UnreachableError(f"{who} is gone: {error}") from None
    except ProtocolError as error:
        raise ProtocolError(f"{who}: {error}") from None


async def _exactly(sock: HASocket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        piece = await sock.receive(count - len(got))
        if not piece:
            raise ConnectionResetError(f"it hung up after {len(got)} of {count} bytes")
        got += piece
    return bytes(got)


# ---- bytes


def encode_slave(handshake: SlaveHandshake) -> bytes:
    learner = 1 if handshake.is_learner else RMQ if handshake.is_rmq else 0
    return _SLAVE.pack(_HANDSHAKE, handshake.from_last_file, learner, handshake.broker_id)


def decode_slave(hello: bytes) -> SlaveHandshake:
    """ProtocolError for anything but a slave's handshake."""
    state, from_last_file, learner, broker_id = _SLAVE.unpack(hello)
    _check_state(state)
    if from_last_file not in (0, 1) or learner not in (0, 1, RMQ):
        raise ProtocolError(
            f"flags {from_last_file} and {learner} in its handshake: 0 or 1, and 0, 1 or {RMQ}"
        )
    if broker_id < FIRST_ID:
        raise ProtocolError(f"broker id {broker_id} in its handshake: ids begin with {FIRST_ID}")
    return SlaveHandshake(broker_id, learner == 1, bool(from_last_file), is_rmq=learner == RMQ)


def encode_master(log_end: int, epochs: Epochs) -> bytes:
    """The master's handshake, with only the newest epochs if there are more than a slave of
    RocketMQ has room for."""
    entries = epochs.entries[-ENTRIES_MAX:]
    head = _MASTER.pack(_HANDSHAKE, len(entries) * _EPOCH.size, log_end, epochs.last_epoch)
    return head + b"".join(_EPOCH.pack(*each) for each in entries)


def epoch_bytes(head: bytes) -> int:
    """How many bytes of epochs follow the head of a master's handshake; ProtocolError if it is
    none."""
    state, count, _, _ = _MASTER.unpack(head)
    _check_state(state)
    if not 0 <= count <= ENTRIES_MAX * _EPOCH.size or count % _EPOCH.size:
        raise ProtocolError(
            f"{count} bytes of epochs in its handshake: at most {ENTRIES_MAX} of {_EPOCH.size} each"
        )
    return int(count)


def decode_master(head: bytes, entries: bytes) -> MasterHandshake:
    _, _, log_end, last_epoch = _MASTER.unpack(head)
    if log_end < 0 or not NO_EPOCH <= last_epoch <= EPOCH_MAX:
        raise ProtocolError(f"log end {log_end}, epoch {last_epoch} in its handshake")
    try:
        epochs = Epochs(tuple(Epoch(*each) for each in _EPOCH.iter_unpack(entries)))
    except ValueError as error:
        raise ProtocolError(f"its handshake: {error}") from None
    if epochs.last_epoch > last_epoch:
        raise ProtocolError(
            f"its epoch is {last_epoch}, and epoch {epochs.last_epoch} is in its handshake"
        )
    return MasterHandshake(log_end, last_epoch, epochs)


def _check_state(state: int) -> None:
    if state != _HANDSHAKE:
        raise ProtocolError(
            f"it begins with {state}, not {_HANDSHAKE}: is enableControllerMode set at both, and "
            "is this the port where slaves get the log?"
        )
