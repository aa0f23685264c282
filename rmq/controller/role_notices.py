"""Role notices: tell replicas at once who is master now (NOTIFY_BROKER_ROLE_CHANGED, 1008).

Each living replica is sent one one-way request, on a connection of its own. A replica that misses
it learns the same by asking (1004), some seconds later.

Example: 2 was elected in {1, 2, 3}, where 1 is dead: 2 and 3 are told
{masterBrokerId 2, masterAddress, masterEpoch 5, syncStateSetEpoch 9} and the set, [2].
"""

from __future__ import annotations

from rmq.codes import FLAG_ONE_WAY, RequestCode
from rmq.controller.broker_set import BrokerSet
from rmq.controller.live_replicas import LiveReplicas
from rmq.format.remoting import Command, encode, field_texts
from rmq.serving.identity import signed
from rmq.serving.one_way import OneWay


class RoleNotices:
    """Owned by the event loop of the controller."""

    def __init__(self, live: LiveReplicas) -> None:
        self._live = live
        self._one_way = OneWay("of its master")

    def tell(self, found: BrokerSet, body: bytes) -> None:
        """`body`: the sync state set as clients of the controller read it."""
        fields = {
            "masterAddress": found.address_of(found.master_id),
            "masterBrokerId": found.master_id,
            "masterEpoch": found.master_epoch,
            "syncStateSetEpoch": found.sync_state_set_epoch,
        }
        command = Command(
            code=RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
            flag=FLAG_ONE_WAY,
            fields=field_texts(fields),
            body=body,
        )
        notice = encode(signed(command))
        for replica in self._live.of_set(found.cluster, found.name).values():
            self._one_way.send(replica.address, notice)

    def stop(self) -> None:
        self._one_way.stop()
