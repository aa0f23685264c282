"""Replicas: which broker copies which, by controllers and brokers; and an operator's changes of it.

    replicas = Replicas(cluster, ["127.0.0.1:9878"])
    replicas.leader()                    the controller that leads; NoControllerError: none does
    for found in replicas.sets(): found.name, found.master_id, found.replicas
    replicas.elect("broker-a", 2)        asks that 2 becomes master (1002); the answer

The controller says which replica is master and which are in sync (1006), and each broker where its
log ends (907, 1007). Brokers without a controller are described by what they and the name servers
say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from rmq import java_properties
from rmq.client.blocking.answers import converted
from rmq.client.blocking.cluster import BrokerEntry, Cluster
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import (
    ConfigError,
    NoControllerError,
    ProtocolError,
    RemoteError,
    RmqError,
    UnreachableError,
)
from rmq.format import fastjson
from rmq.format.remoting import Command

ANSWER_S = 2.0
PEER = re.compile(r"(\[[^\]]*\]|[^:]+):\d+$")


class Replica(msgspec.Struct):
    """One replica of a broker. Values that are None are not known."""

    id: int
    address: str
    role: str = "slave"
    alive: bool = False
    in_sync: bool | None = None
    answers: bool | None = None  # a member of the sync state set: whether its master hears it
    epoch: int | None = None  # the last one of its log
    log_end: int | None = None
    lag_bytes: int | None = None  # how far it is behind its master
    behind_ms: int | None = None  # time since it last had everything


class ReplicaSet(msgspec.Struct):
    """The replicas of one broker name. `controlled`: a controller decides which is master."""

    name: str
    cluster: str = ""
    controlled: bool = True
    master_id: int | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    replicas: list[Replica] = []

    def replica(self, broker_id: int) -> Replica | None:
        return next((each for each in self.replicas if each.id == broker_id), None)

    @property
    def master(self) -> Replica | None:
        return self.replica(self.master_id) if self.master_id is not None else None


class ControllerState(msgspec.Struct):
    """A controller; `leads` is None if it does not answer."""

    address: str
    leads: bool | None = None


class _Row(msgspec.Struct):
    brokerId: int
    brokerAddress: str | None = None
    alive: bool = False


class _Info(msgspec.Struct):
    masterBrokerId: int | None = None
    masterEpoch: int = 0
    syncStateSetEpoch: int = 0
    inSyncReplicas: list[_Row] = []
    notInSyncReplicas: list[_Row] = []


class _Table(msgspec.Struct):
    replicasInfoTable: dict[str, _Info] = {}


class _Connection(msgspec.Struct):
    slaveAckOffset: int = 0
    diff: int = 0
    inSync: bool = False
    rmqBrokerId: int = 0
    rmqBehindMs: int | None = None


class _Client(msgspec.Struct):
    activated: bool = False
    maxOffset: int = 0


class _Status(msgspec.Struct):
    master: bool = False
    masterCommitLogMaxOffset: int = 0
    haConnectionInfo: list[_Connection] = []
    haClientRuntimeInfo: _Client | None = None
    rmqAllAck: bool | None = None
    rmqAnswering: list[int] | None = None


class _Sample(msgspec.Struct):
    role: str = ""
    state: str = ""


class _Epoch(msgspec.Struct):
    epoch: int


class _Epochs(msgspec.Struct):
    maxOffset: int = 0
    epochList: list[_Epoch] = []


class Replicas:
    """The replicas of a cluster; used by one thread. `controllers`: the addresses of some or all
    controllers; may be empty."""

    def __init__(self, cluster: Cluster, controllers: Sequence[str]) -> None:
        self._cluster = cluster
        self.controllers = list(controllers)

    # ---- controllers

    def states(self) -> list[ControllerState]:
        """All controllers that are known, and whether each leads."""
        known = {each: ControllerState(each) for each in self.controllers}
        for address in self.controllers:
            try:
                reply = self._call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            except RmqError:
                continue
            known[address].leads = reply.bool_field("isLeader", False)
            for peer in (reply.text_field("peers") or "").split(";"):
                at = PEER.search(peer.strip())  # "name:host:port", and a name may hold colons
                if at is not None and at[0] not in known:
                    known[at[0]] = ControllerState(at[0])
        for address, state in known.items():
            if address not in self.controllers:
                try:
                    reply = self._call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
                    state.leads = reply.bool_field("isLeader", False)
                except RmqError:
                    continue
        return list(known.values())

    def leader(self) -> str:
        """The address of the controller that leads."""
        problems = []
        for address in self.controllers:
            try:
                reply = self._call(address, RequestCode.CONTROLLER_GET_METADATA_INFO)
            except (UnreachableError, RemoteError, ProtocolError) as error:
                problems.append(f"{address}: {error}")
                continue
            if reply.bool_field("isLeader", False):
                return address
            if found := reply.text_field("controllerLeaderAddress"):
                return str(found)
            problems.append(f"{address} knows of no leader")
        raise NoControllerError("no controller leads: " + "; ".join(problems))

    def elect(self, name: str, broker_id: int, *, at_once: bool = False) -> Command:
        """Asks the leader to make this replica master, and returns the answer, whatever its code.
        CONTROLLER_MASTER_STILL_EXIST: the master still has its lease, so it is not done yet, or
        with `at_once` not done at all."""
        fields = {"brokerName": name, "brokerId": broker_id, "designateElect": True,
                  "rmqAtOnce": at_once}  # fmt: skip
        return self._ask(self.leader(), RequestCode.CONTROLLER_ELECT_MASTER, fields)

    def remove(self, found: ReplicaSet, broker_id: int) -> None:
        """Makes the controller forget a replica. RemoteError: it refuses, and says why."""
        fields = {
            "brokerName": found.name, "brokerControllerIdsToClean": broker_id,
            "isCleanLivingBroker": False,
        }  # fmt: skip
        if found.cluster:  # the name of another cluster would be refused
            fields["clusterName"] = found.cluster
        self._call(self.leader(), RequestCode.CLEAN_BROKER_DATA, fields)

    # ---- replicas

    def sets(self, names: Sequence[str] = (), *, details: bool = True) -> list[ReplicaSet]:
        """The replica sets of these names, or all that the controller knows. `details`: asks the
        brokers, too."""
        body = fastjson.dumps(list(names))
        fields = {} if names else {"rmqAll": True}
        reply = self._call(self.leader(), RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, fields, body)
        table = converted(reply.body, _Table, "the controller's broker sets").replicasInfoTable
        found = [_replica_set(name, info) for name, info in sorted(table.items())]
        for each in found if details else ():
            self._add_details(each)
        return found

    def plain_set(self, entry: BrokerEntry) -> ReplicaSet:
        """The replica set of a broker name without a controller."""
        found = ReplicaSet(entry.name, entry.cluster, controlled=False)
        for broker_id, address in sorted(entry.addresses.items()):
            replica = Replica(broker_id, address, "master" if broker_id == 0 else "slave")
            found.replicas.append(replica)
            if (status := self._status(address)) is None:
                continue
            replica.alive, replica.role = True, "master" if status.master else "slave"
            client = status.haClientRuntimeInfo or _Client()
            if status.master:
                found.master_id, replica.in_sync = broker_id, True
                replica.log_end = status.masterCommitLogMaxOffset
            else:
                replica.in_sync, replica.log_end = client.activated, client.maxOffset
        _add_lags(found)
        return found

    def _add_details(self, found: ReplicaSet) -> None:
        for replica in found.replicas:
            if not replica.alive or not replica.address:
                continue
            try:
                reply = self._call(replica.address, RequestCode.GET_BROKER_EPOCH_CACHE)
                epochs = converted(reply.body, _Epochs, replica.address)
            except (UnreachableError, RemoteError, ProtocolError):
                continue
            replica.log_end = epochs.maxOffset
            replica.epoch = epochs.epochList[-1].epoch if epochs.epochList else None
        _add_lags(found)
        master = found.master
        status = self._status(master.address) if master is not None and master.alive else None
        answering = status.rmqAnswering if status is not None and status.master else None
        if answering is not None:
            for replica in found.replicas:
                if replica.in_sync:
                    replica.answers = replica.id in answering
        for row in status.haConnectionInfo if status is not None else ():
            slave = found.replica(row.rmqBrokerId)
            if slave is not None and slave is not master:
                slave.lag_bytes, slave.behind_ms = row.diff, row.rmqBehindMs

    def settings(self, address: str) -> dict[str, str]:
        """All settings of a broker."""
        body = self._call(address, RequestCode.GET_BROKER_CONFIG).body
        try:
            return dict(java_properties.parse(body.decode("utf-8"), address))
        except (UnicodeDecodeError, ConfigError) as error:
            raise ProtocolError(f"{address}: its settings cannot be read: {error}") from None

    def set_setting(self, address: str, key: str, text: str) -> None:
        """Changes a setting at run time; the change lasts until the broker's process ends."""
        self._call(address, RequestCode.UPDATE_BROKER_CONFIG, body=f"{key}={text}".encode())

    def acks_of_all(self, master: str) -> bool | None:
        """Whether a send waits for all replicas that are in sync; None: this master does not say,
        or is not master."""
        status = self._status(master)
        return status.rmqAllAck if status is not None and status.master else None

    def is_slave(self, address: str) -> bool:
        """Whether the broker says that it is a slave. Then it has given all answers that it would
        give as master."""
        status = self._status(address)
        return status is not None and not status.master

    def log_end(self, master: str) -> int:
        status = self._status(master)
        if status is None:
            raise UnreachableError(f"{master} does not say where its log ends")
        return status.masterCommitLogMaxOffset

    def acked(self, master: str, broker_id: int) -> int:
        """How far that replica has the log, by what its master knows."""
        status = self._status(master)
        rows = status.haConnectionInfo if status is not None else []
        return max((row.slaveAckOffset for row in rows if row.rmqBrokerId == broker_id), default=0)

    def takes_sends(self, address: str) -> bool:
        """Whether this broker is master, and enough replicas are in sync with it."""
        fields = {"rmqDetail": "brief"}
        reply = self._call(address, RequestCode.GET_BROKER_RUNTIME_INFO, fields)
        text = (fastjson.loads_object(reply.body).get("table") or {}).get("rmqSample")
        sample = converted(text.encode(), _Sample, address) if isinstance(text, str) else _Sample()
        return bool(sample.role == "master" and sample.state == "running")

    def _status(self, address: str) -> _Status | None:
        try:
            reply = self._call(address, RequestCode.GET_BROKER_HA_STATUS)
            return converted(reply.body, _Status, address)
        except (UnreachableError, RemoteError, ProtocolError):
            return None

    def _call(self, address: str, code: RequestCode, fields: Any = None, body: bytes = b"") -> Any:
        reply = self._ask(address, code, fields, body)
        if reply.code != ResponseCode.SUCCESS:
            raise RemoteError(reply.code, f"{address}: {reply.remark or 'no reason given'}")
        return reply

    def _ask(
        self, address: str, code: RequestCode, fields: Any = None, body: bytes = b""
    ) -> Command:
        try:
            return self._cluster.ask(address, code, fields, body, ANSWER_S)
        except UnreachableError:
            self._cluster.drop(address)
            return self._cluster.ask(address, code, fields, body, ANSWER_S)


def _replica_set(name: str, info: _Info) -> ReplicaSet:
    found = ReplicaSet(
        name, master_id=info.masterBrokerId, master_epoch=info.masterEpoch,
        sync_state_set_epoch=info.syncStateSetEpoch,
    )  # fmt: skip
    for rows, in_sync in ((info.inSyncReplicas, True), (info.notInSyncReplicas, False)):
        for row in rows:
            role = "master" if row.brokerId == info.masterBrokerId else "slave"
            address = row.brokerAddress or ""
            found.replicas.append(Replica(row.brokerId, address, role, row.alive, in_sync))
    found.replicas.sort(key=lambda each: each.id)
    return found


def _add_lags(found: ReplicaSet) -> None:
    master = found.master
    if master is None or master.log_end is None:
        return
    for each in found.replicas:
        if each.log_end is not None:
            each.lag_bytes = max(0, master.log_end - each.log_end)
