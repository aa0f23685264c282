"""Broker set: what the controller knows of the replicas of one broker name.

    BrokerSet("c", "broker-a")                                      nobody has an id yet
    replicas {1: .., 2: ..}, master_id 1, master_epoch 4,           1 takes sends; what is acked is
    sync_state_set {1, 2}, sync_state_set_epoch 7                   in the logs of 1 and 2

It is a value: a change makes a new BrokerSet. `master_epoch` grows with every new master, and when
there is no master any more; `sync_state_set_epoch` grows with every change of that set. An id is
not given again while its replica is known, and the next id is greater than all before.

The words are RocketMQ's (BrokerReplicaInfo and SyncStateInfo of its controller). A state store
keeps what encode() makes; decode() checks everything.
"""

from __future__ import annotations

import msgspec

from rmq.errors import StoreCorruptError

FIRST_ID = 1
REPLICAS_MAX = 64
NAME_CHARACTERS_MAX = 255
ADDRESS_CHARACTERS_MAX = 255
I32_MAX = 2**31 - 1
I64_MAX = 2**63 - 1


class Replica(msgspec.Struct, frozen=True):
    """`check_code`: the text "address;milliseconds" with which the broker applied for its id."""

    address: str
    check_code: str


class BrokerSet(msgspec.Struct, frozen=True):
    cluster: str
    name: str
    replicas: dict[int, Replica] = {}  # by broker id
    next_id: int = FIRST_ID
    master_id: int | None = None
    master_epoch: int = 0  # 0: there was none yet
    sync_state_set: frozenset[int] = frozenset()  # ids; the master's is in it
    sync_state_set_epoch: int = 0
    lease_ms: int = 0  # the longest lease granted to this mastership, by any controller

    def address_of(self, broker_id: int | None) -> str | None:
        """The replica's address; None: nobody has that id."""
        replica = self.replicas.get(broker_id) if broker_id is not None else None
        return replica.address if replica is not None else None

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


_decoder = msgspec.json.Decoder(BrokerSet)


def decode(content: bytes, where: str) -> BrokerSet:
    """The broker set in what encode() made; StoreCorruptError, which names `where`, otherwise."""
    try:
        found = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreCorruptError(f"{where}: {error}") from None
    if wrong := fault_of(found):
        raise StoreCorruptError(f"{where}: {wrong}")
    return found


def fault_of(found: BrokerSet) -> str:
    """In words, what cannot be right in this broker set; "": nothing is wrong."""
    ids = found.replicas.keys()
    if not 0 < len(found.name) <= NAME_CHARACTERS_MAX:
        return f"a broker name of {len(found.name)} characters"
    if len(ids) > REPLICAS_MAX:
        return f"{len(ids)} replicas, where {REPLICAS_MAX} are the most"
    if any(not FIRST_ID <= each < found.next_id for each in ids) or found.next_id > I64_MAX:
        return f"ids {sorted(ids)} where the next one is {found.next_id}"
    if found.master_id is not None and found.master_id not in ids:
        return f"master {found.master_id} is none of the replicas {sorted(ids)}"
    if not found.sync_state_set <= ids:
        return f"in sync are {sorted(found.sync_state_set)}, replicas are {sorted(ids)}"
    if found.master_id is not None and found.master_id not in found.sync_state_set:
        return f"master {found.master_id} is not in sync: {sorted(found.sync_state_set)}"
    if found.master_id is not None and found.master_epoch == 0:
        return f"master {found.master_id} without an epoch"
    if not (0 <= found.master_epoch <= I32_MAX and 0 <= found.sync_state_set_epoch <= I32_MAX):
        return f"epochs {found.master_epoch} and {found.sync_state_set_epoch}"
    if not 0 <= found.lease_ms <= I32_MAX:
        return f"leases of {found.lease_ms} ms"
    return ""
