"""QueueLocks: locks at brokers (41, 42); only the holder of a queue's lock consumes it in order.

    locks.lock(queues)       # {queue: whether this client holds it now}
    locks.unlock(queues)

A broker keeps a lock for 60 s after it was last asked for. This client relies on a lock for 30 s,
and asks again every 20 s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rmq.client.connection.instance import ClientInstance
from rmq.codes import RequestCode
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.format.fastjson import MessageQueue

log = logging.getLogger("rmq.client")

TIMEOUT_MS = 1_000
RENEW_MS = 20_000


class QueueLocks:
    """The locks of one group in one client; queues have their topic's name on the wire."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._group = group

    def lock(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool]:
        """Asks for locks, or renews them, and returns whether each is held now. Queues of brokers
        that do not answer are left out."""
        found: dict[MessageQueue, bool] = {}
        for name, some in self._by_broker(queues).items():
            try:
                address = self._instance.routes.address_of(name)
                reply = self._instance.call(
                    address, RequestCode.LOCK_BATCH_MQ, {}, self._body(some), TIMEOUT_MS
                )
                rows = fastjson.loads_object(reply.body).get("lockOKMQSet") or []
                held = {MessageQueue.of(each) for each in rows}
            except RmqError as error:
                log.warning("locking queues of %s: %s", name, error)
                continue
            found |= {each: each in held for each in some}
        return found

    def unlock(self, queues: Iterable[MessageQueue]) -> None:
        for name, some in self._by_broker(queues).items():
            try:
                address = self._instance.routes.address_of(name)
                code = RequestCode.UNLOCK_BATCH_MQ
                self._instance.call(address, code, {}, self._body(some), TIMEOUT_MS)
            except RmqError as error:
                log.warning("unlocking queues of %s: %s", name, error)

    @staticmethod
    def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        found: dict[str, list[MessageQueue]] = {}
        for each in queues:
            found.setdefault(each.broker_name, []).append(each)
        return found

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return fastjson.dumps(
            {"clientId": self._instance.client_id, "consumerGroup": self._group,
             "mqSet": [each.members() for each in queues]}
        )  # fmt: skip
