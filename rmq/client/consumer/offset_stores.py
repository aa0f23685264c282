"""Offset stores: keep where a group goes on, at brokers or in a file of this machine.

    store.read(queue)                       # an offset, or None if there is none
    store.persist({queue: offset}, wait=False)

Queues have their topic's name on the wire. RemoteOffsets is for clustering: each broker keeps the
offsets of its queues. LocalOffsets is for broadcasting. It writes RocketMQ's file
<folder>/<client id>/<group>/offsets.json, {"offsetTable":{{queue}:offset,..}}, and keeps the
previous one as offsets.json.bak. Any object with the methods of OffsetStore may be given as
offset_store; consumers call it through GivenOffsets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar, Protocol

from cext.client.reply import Reply
from rmq.base import atomic_file, waits
from rmq.base.durable_directory import make_directory
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.replicas import Purpose
from rmq.client.connection.request_round import RequestRound, Submit
from rmq.client.parameters.consumer import BROADCASTING
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ProtocolError, RmqError, exception_of
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")


class OffsetStore(Protocol):
    """The methods of an offset_store. Any thread may call them."""

    def load(self) -> None:
        """Called once, before the first read."""

    def read(self, queue: MessageQueue) -> int | None:
        """Where to go on in this queue; None if nothing was committed there yet. After an RmqError
        it is asked again later."""

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        """Keeps the offsets. wait: returns when that is done. Failures are logged, not raised, and
        made good by the next call."""


class KeptOffsets(OffsetStore, Protocol):
    """An offset store as consumers use it; `persist` raises nothing."""

    def owes(self, queue: MessageQueue) -> bool:
        """Whether the offset persisted last may not be kept, so that it must be persisted again."""


class RemoteOffsets:
    """Offsets kept by brokers: by masters, or by slaves while their masters are away.

    An offset may be lost: a slave's when its master is back, a master's when the master is
    replaced; and some answers never come. An offset that the broker which is asked now has not
    confirmed as master is `owed`: it will be persisted again.
    """

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._owed: dict[MessageQueue, int] = {}
        self._takers: dict[MessageQueue, str] = {}  # address of the master that took the last one
        self._lock = threading.Lock()
        self._instance = instance
        self._group = group

    def load(self) -> None:
        pass

    def _fields(self, queue: MessageQueue) -> dict[str, object]:
        return {"consumerGroup": self._group, "topic": queue.topic, "queueId": queue.queue_id}

    def read(self, queue: MessageQueue) -> int | None:
        address = self._instance.routes.address_of(queue.broker_name, Purpose.STATE)
        reply = self._instance.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, self._fields(queue))
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return reply.check().int_field("offset")

    def owes(self, queue: MessageQueue) -> bool:
        """Whether the broker that keeps the queue's offset now may lack the last one."""
        return queue in self._owed or has_another_keeper(
            self._instance, queue.broker_name, self._takers.get(queue)
        )

    def _is_kept(self, queue: MessageQueue, offset: int, address: str) -> None:
        with self._lock:
            self._takers[queue] = address
            if self._owed.get(queue) == offset:
                del self._owed[queue]

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        with self._lock:
            self._owed.update(offsets)
        told: SimpleQueue[None] = SimpleQueue()
        submit = RequestRound(self._instance).submit
        asked = 0
        for queue, offset in offsets.items():
            asked += self._tell(queue, offset, told, submit)
        if wait:
            timeout_s = self._instance.parameters.mq_client_api_timeout / 1000 + 1
            waits.get_all(told, asked, timeout_s)

    def _tell(
        self, queue: MessageQueue, offset: int, told: SimpleQueue[None], submit: Submit
    ) -> bool:
        """Sends an offset to its broker. Returns whether an answer will come."""
        try:
            replica = self._instance.routes.replica_of(queue.broker_name, Purpose.STATE)

            def completed(reply: Reply | None, error: Exception | None) -> None:
                if reply is None or reply.code != ResponseCode.SUCCESS:
                    log.warning("committing %d of %s: %s", offset, queue, error or reply)
                elif replica.is_master:
                    self._is_kept(queue, offset, replica.address)
                told.put(None)

            fields = {**self._fields(queue), "commitOffset": offset}
            timeout_ms = self._instance.parameters.mq_client_api_timeout
            code = RequestCode.UPDATE_CONSUMER_OFFSET
            submit(replica.address, code, fields, b"", timeout_ms, completed)
        except BaseException as error:  # also from a hook: go on with the others, this one is owed
            log.warning("committing %d of %s: %s", offset, queue, exception_of(error))
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise
            return False
        return True


def has_another_keeper(instance: ClientInstance, broker_name: str, taker: str | None) -> bool:
    """Whether offsets of this broker name are now kept by another broker than the master that took
    the last one: by a new master, or by a slave while the master is away. taker: the address of
    that master; None: none has taken any."""
    if taker is None:
        return False
    try:
        return instance.routes.replica_of(broker_name, Purpose.STATE).address != taker
    except RmqError:
        return False


class LocalOffsets:
    """Offsets kept in a file of this machine."""

    _lock: ClassVar[threading.Lock] = threading.Lock()  # consumers of one process may share a file

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets: dict[MessageQueue, int] = {}
        self._owed: dict[MessageQueue, int] = {}  # not in the file yet

    @classmethod
    def of(cls, folder: str | None, client_id: str, group: str) -> LocalOffsets:
        base = Path(folder) if folder else Path.home() / ".rocketmq_offsets"
        return cls(base / client_id / group / "offsets.json")

    @property
    def _backup(self) -> Path:
        return self.path.with_name(self.path.name + ".bak")

    def load(self) -> None:
        with self._lock:
            self._offsets = self._read()

    def owes(self, queue: MessageQueue) -> bool:
        return queue in self._owed

    def _read(self) -> dict[MessageQueue, int]:
        for path in (self.path, self._backup):
            try:
                table = fastjson.loads_object(path.read_bytes()).get("offsetTable") or {}
            except FileNotFoundError:
                continue
            except (OSError, ProtocolError) as error:
                log.warning("offsets in %s: %s", path, error)
                continue
            return {
                queue: offset for queue, offset in table.items()
                if isinstance(queue, MessageQueue) and isinstance(offset, int) and offset >= 0
            }  # fmt: skip
        return {}

    def read(self, queue: MessageQueue) -> int | None:
        with self._lock:
            return self._offsets.get(queue)

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        """Writes the file beside the old one and renames it, so that one of them is always
        complete."""
        with self._lock:
            self._owed.update(offsets)
            # keeps what another process with the same client id has written meanwhile
            self._offsets = {**self._read(), **self._owed}
            beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
            try:
                make_directory(self.path.parent)
                atomic_file.write_synced(beside, fastjson.dumps({"offsetTable": self._offsets}))
                with contextlib.suppress(FileNotFoundError):
                    self.path.replace(self._backup)
                atomic_file.rename_synced(beside, self.path)
                self._owed.clear()
            except OSError as error:
                log.error("offsets are not kept in %s: %s", self.path, error)


class GivenOffsets:
    """Offsets kept by a store of the user's. If it raises anything, or returns something that is
    not a number, only this call fails; queues are still looked up, and a consumer still closes."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self._owed: set[MessageQueue] = set()

    def load(self) -> None:
        self._store.load()

    def owes(self, queue: MessageQueue) -> bool:
        return queue in self._owed

    def read(self, queue: MessageQueue) -> int | None:
        try:
            found: Any = self._store.read(queue)
        except RmqError:
            raise
        except Exception as error:
            raise RmqError(f"the offset_store: {error!r}") from error
        if found is None:
            return None
        if not isinstance(found, Integral):  # text or bytes, as databases give them
            raise RmqError(f"the offset_store: {found!r} for {queue}, neither None nor a number")
        return int(found)

    def persist(self, offsets: Mapping[MessageQueue, int], *, wait: bool) -> None:
        try:
            self._store.persist(offsets, wait=wait)
        except BaseException as error:  # SystemExit, too: a consumer that closes must go on
            self._owed.update(offsets)
            log.error("offsets are not kept by the offset_store: %r", error)
            if isinstance(error, KeyboardInterrupt):  # Ctrl-C
                raise
            return
        self._owed.difference_update(offsets)


class OffsetStoreParameters(Protocol):
    """The parameters that say where offsets are kept."""

    offset_store: Any
    message_model: str
    instance_name: str
    local_offset_store_dir: str | None


def offset_store(given: OffsetStoreParameters, instance: ClientInstance, group: str) -> KeptOffsets:
    """The store that the user gave; else a file in broadcasting, and brokers in clustering."""
    if given.offset_store is not None:
        return GivenOffsets(given.offset_store)
    if given.message_model == BROADCASTING:
        name = instance.client_id
        if given.instance_name == "DEFAULT":  # the next run must find the same file
            name = name.partition("@")[0] + "@DEFAULT"
        return LocalOffsets.of(given.local_offset_store_dir, name, group)
    return RemoteOffsets(instance, group)
