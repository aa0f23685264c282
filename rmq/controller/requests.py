"""Requests: what the controller does for each code, in one table.

    904             heartbeats of brokers, to every controller
    1012 1013 1003  a broker gets its id, and says where it is
    1001 1002 1004  who is in sync, who is master, and what a replica should know of both
    1005            which controller leads; every controller answers this
    1006 1011       for operators: broker sets; replicas that are gone for good
    1009 1010       settings

Only the leader serves requests other than 904, 1005, 1009 and 1010: other controllers answer 2007,
and the asker then asks who leads (1005).

rmq adds these fields, which RocketMQ's brokers neither send nor look at:

    904     rmqCovered      "true": each ack of this master needs its whole sync state set
            rmqLost         "true": this log has lost an epoch that it had
            rmqDoubted      "true": it may have lost its end
    1001    rmqNewEpoch     "true": the set may be the present one, and gets a new epoch
    1004    rmqBrokerId, rmqMasterEpoch, rmqCovered: the master asks for a lease
            reply: rmqLeaseMillis, how long it may go on after it sent the request; 0: it may not
    1006    rmqAll "true": all broker names
    1004    rmqResign "true": the sender is master no more, and acknowledges nothing
    1002    rmqAtOnce "true": a master is elected at once, or nothing is changed
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

import msgspec

from rmq.codes import RequestCode, ResponseCode
from rmq.controller import decisions
from rmq.controller.broker_set import (
    ADDRESS_CHARACTERS_MAX,
    I32_MAX,
    NAME_CHARACTERS_MAX,
    BrokerSet,
)
from rmq.controller.decisions import NOBODY, Alteration, Clean, Decision, Election
from rmq.controller.elections import Elections
from rmq.controller.live_replicas import PRIORITY_LEAST, TIMEOUT_MS, LiveReplica
from rmq.controller.state_store import NotLeaderError, StateStoreError
from rmq.errors import BusyError, ConfigError, ProtocolError, StoreCorruptError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.serving.request_table import RequestTable, unexpected
from rmq.serving.runtime_config import Forbidden, RuntimeConfig

HEARTBEAT_TIMEOUT_MS_MAX = 600_000
NAMES_MAX = 10_000

_log = logging.getLogger("rmq.controller.requests")

_table: RequestTable[Requests] = RequestTable()
_handles = _table.handles


class Requests:
    """Owned by the event loop of the controller."""

    def __init__(self, elections: Elections, group: str, config: RuntimeConfig) -> None:
        self.elections = elections
        self.store = elections.store
        self.live = elections.live
        self.group = group
        self.config = config

    def start(self, request: Command, connection: object) -> Command | Awaitable[Command]:
        return _table.start(self, request, connection)


def failure(request: Command, error: Exception) -> Command:
    """The reply to a request that could not be done."""
    if isinstance(error, NotLeaderError):
        return request.reply(ResponseCode.CONTROLLER_NOT_LEADER, str(error))
    if isinstance(error, Forbidden):
        return request.reply(ResponseCode.NO_PERMISSION, str(error))
    if isinstance(error, (ProtocolError, ConfigError)):
        return request.reply(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error))
    if isinstance(error, (StateStoreError, StoreCorruptError, BusyError)):
        _log.error("request %d: %s", request.code, error)
        return request.reply(ResponseCode.SYSTEM_ERROR, str(error))
    return unexpected(_log, request, error)


def _name(request: Command, field: str = "brokerName") -> str:
    """A name from the request, checked because it becomes a key of the store."""
    name = request.require(field)
    if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or "/" in name:
        raise ProtocolError(f"{field} is not a name: {name[:40]!r}")
    return name


def _address(request: Command, field: str) -> str:
    address = request.require(field)
    if len(address) > ADDRESS_CHARACTERS_MAX:
        raise ProtocolError(f"{field} is no address: {address[:40]!r}")
    return address


def _id(request: Command, field: str) -> int:
    broker_id: int = request.int_field(field, minimum=0)
    return broker_id


def set_body(found: BrokerSet) -> bytes:
    """The body SyncStateSet, as brokers read it."""
    return msgspec.json.encode(
        {
            "syncStateSet": sorted(found.sync_state_set),
            "syncStateSetEpoch": found.sync_state_set_epoch,
        }
    )


def _refused(request: Command, decision: Decision) -> Command:
    return request.reply(decision.code, decision.remark)


# ------------------------------------------------------------------- brokers


@_handles(RequestCode.BROKER_HEARTBEAT)
async def _heartbeat(c: Requests, request: Command, connection: object) -> Command:
    key = (_name(request, "clusterName"), _name(request), _id(request, "brokerId"))
    timeout_ms = request.int_field("heartbeatTimeoutMills", TIMEOUT_MS, 1, HEARTBEAT_TIMEOUT_MS_MAX)
    replica = LiveReplica(
        address=_address(request, "brokerAddr"),
        epoch=request.int_field("epoch", -1, -1, I32_MAX),
        max_offset=request.int_field("maxOffset", -1, -1),
        confirm_offset=request.int_field("confirmOffset", -1, -1),
        priority=request.int_field(
            "electionPriority", PRIORITY_LEAST, -PRIORITY_LEAST, PRIORITY_LEAST
        ),
        timeout_ms=timeout_ms,
        has_lost=request.bool_field("rmqLost", False),
        is_doubted=request.bool_field("rmqDoubted", False),
    )
    if c.live.heard(key, replica, connection):
        _log.info("replica %d of broker %s (%s) is there: %s", key[2], key[1], key[0],
                  replica.address)  # fmt: skip
    return request.reply(remark="Heart beat success")


@_handles(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
async def _next_id(c: Requests, request: Command, connection: object) -> Command:
    cluster, name = _name(request, "clusterName"), _name(request)
    found, _ = await c.store.read(name)
    fields = {
        "clusterName": cluster,
        "brokerName": name,
        "nextBrokerId": decisions.next_broker_id(found),
    }
    return request.reply(fields=fields)


@_handles(RequestCode.CONTROLLER_APPLY_BROKER_ID)
async def _apply_id(c: Requests, request: Command, connection: object) -> Command:
    cluster, name = _name(request, "clusterName"), _name(request)
    broker_id, check_code = _id(request, "appliedBrokerId"), request.require("registerCheckCode")
    decision, _ = await c.elections.change(
        name, lambda found: decisions.apply_broker_id(found, cluster, name, broker_id, check_code)
    )
    if decision.code != ResponseCode.SUCCESS:
        return _refused(request, decision)
    return request.reply(fields={"clusterName": cluster, "brokerName": name})


@_handles(RequestCode.CONTROLLER_REGISTER_BROKER)
async def _register(c: Requests, request: Command, connection: object) -> Command:
    cluster, name = _name(request, "clusterName"), _name(request)
    broker_id, address = _id(request, "brokerId"), _address(request, "brokerAddress")
    decision, after = await c.elections.change(
        name, lambda found: decisions.register(found, cluster, broker_id, address)
    )
    if decision.code != ResponseCode.SUCCESS or after is None:
        return _refused(request, decision)
    fields: dict[str, Any] = {"clusterName": cluster, "brokerName": name}
    if after.master_id is not None and c.live.is_alive((cluster, name, after.master_id)):
        fields |= _master_fields(after)
    return request.reply(fields=fields, body=set_body(after))


def _master_fields(found: BrokerSet) -> dict[str, Any]:
    return {
        "masterBrokerId": found.master_id,
        "masterAddress": found.address_of(found.master_id),
        "masterEpoch": found.master_epoch,
        "syncStateSetEpoch": found.sync_state_set_epoch,
    }


@_handles(RequestCode.CONTROLLER_GET_REPLICA_INFO)
async def _replica_info(c: Requests, request: Command, connection: object) -> Command:
    name = _name(request)
    asker = request.int_field("rmqBrokerId", None, 0)
    epoch = request.int_field("rmqMasterEpoch", 0, 0, I32_MAX)
    resigns, covered = (request.bool_field(each, False) for each in ("rmqResign", "rmqCovered"))
    lease_ms: int | None = None
    if asker is None:
        found, _ = await c.store.read(name)
    elif resigns:
        await c.elections.resign(name, asker, epoch)
        found, _ = await c.store.read(name)
    elif epoch:
        found, granted_ms = await c.elections.grant(name, asker, epoch, covered)
        lease_ms = granted_ms or 0  # 0 is sent, too: RocketMQ's controller sends no such field
    else:  # a slave asks: with a slow store its master's question must not wait for this one
        found, _ = await c.store.read(name)
        lease_ms = 0
    if found is None:
        return request.reply(
            ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, "Broker metadata is not existed"
        )
    fields = _master_fields(found) | {"rmqLeaseMillis": lease_ms}
    del fields["syncStateSetEpoch"]
    return request.reply(fields=fields, body=set_body(found))


@_handles(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
async def _alter(c: Requests, request: Command, connection: object) -> Command:
    name = _name(request)
    asked = Alteration(
        master_id=_id(request, "masterBrokerId"),
        master_epoch=request.int_field("masterEpoch", minimum=0, maximum=I32_MAX),
        is_new_epoch=request.bool_field("rmqNewEpoch", False),
        **_wanted(request.body),
    )
    decision, after = await c.elections.change(
        name,
        lambda found: decisions.alter_sync_state_set(found, asked, c.elections.living(found)),
    )
    if decision.code != ResponseCode.SUCCESS or after is None:
        return _refused(request, decision)
    fields = {"newSyncStateSetEpoch": after.sync_state_set_epoch}
    return request.reply(fields=fields, body=set_body(after))


class _SetBody(msgspec.Struct):
    syncStateSet: list[int]
    syncStateSetEpoch: int = 0


def _wanted(body: bytes) -> dict[str, Any]:
    try:
        read = msgspec.convert(fastjson.request_object(body), _SetBody, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"sync state set: {error}") from None
    if not 0 <= read.syncStateSetEpoch <= I32_MAX:
        raise ProtocolError(f"sync state set: epoch {read.syncStateSetEpoch}")
    return {"wanted": frozenset(read.syncStateSet), "set_epoch": read.syncStateSetEpoch}


@_handles(RequestCode.CONTROLLER_ELECT_MASTER)
async def _elect(c: Requests, request: Command, connection: object) -> Command:
    name = _name(request)
    asked = Election(
        broker_id=request.int_field("brokerId", NOBODY, NOBODY),
        designated=request.bool_field("designateElect", False),
        unclean=c.elections.unclean(),
        at_once=request.bool_field("rmqAtOnce", False),
        cluster=request.text_field("clusterName") or None,
    )
    if asked.designated and asked.broker_id == NOBODY:
        raise ProtocolError("designateElect without a brokerId")
    decision, after = await c.elections.elect(name, asked)
    elected = decision.code == ResponseCode.SUCCESS
    stays = decision.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    if after is None or not (elected or stays):
        return _refused(request, decision)
    body: dict[str, Any] = {"syncStateSet": sorted(after.sync_state_set)}
    if elected:  # mqadmin takes the whole body for the group, brokers read a member of it
        group = _member_group(after)
        body |= {**group, "brokerMemberGroup": group}
    return request.reply(
        decision.code, decision.remark, fields=_master_fields(after), body=fastjson.dumps(body)
    )


def _member_group(found: BrokerSet) -> dict[str, Any]:
    """The group, with ids as texts: Apache's controller writes them bare, at which its own mqadmin
    gives up because of an unquoted name."""
    return {
        "cluster": found.cluster,
        "brokerName": found.name,
        "brokerAddrs": {str(key): each.address for key, each in sorted(found.replicas.items())},
    }


# ------------------------------------------------------------------- operators


@_handles(RequestCode.CONTROLLER_GET_METADATA_INFO)
async def _metadata(c: Requests, request: Command, connection: object) -> Command:
    leader = await c.store.leader()
    peers = "".join(f"{each.name}:{each.address};" for each in await c.store.members())
    fields = {
        "group": c.group,
        "controllerLeaderId": leader.name if leader is not None else None,
        "controllerLeaderAddress": leader.address if leader is not None else None,
        "isLeader": c.store.is_leader(),
        "peers": peers,
    }
    return request.reply(fields=fields)


@_handles(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)
async def _sync_state_data(c: Requests, request: Command, connection: object) -> Command:
    names = fastjson.loads(request.body, fastjson.LOOSE_REQUEST_BYTES_MAX) if request.body else []
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise ProtocolError("the body is not a list of broker names")
    if len(names) > NAMES_MAX:
        raise ProtocolError(f"{len(names)} names, where {NAMES_MAX} are the most")
    if request.bool_field("rmqAll", False):
        names = sorted(await c.store.names())
    table = {}
    for name in names:
        found, _ = await c.store.read(name)
        if found is not None:
            table[name] = _replicas_info(c, found)
    return request.reply(body=fastjson.dumps({"replicasInfoTable": table}))


def _replicas_info(c: Requests, found: BrokerSet) -> dict[str, Any]:
    def row(broker_id: int) -> dict[str, Any]:
        return {
            "brokerName": found.name,
            "brokerId": broker_id,
            "brokerAddress": found.address_of(broker_id),
            "alive": c.live.is_alive((found.cluster, found.name, broker_id)),
        }

    ids = sorted(found.replicas)
    return {
        "masterBrokerId": found.master_id,
        "masterAddress": found.address_of(found.master_id),
        "masterEpoch": found.master_epoch,
        "syncStateSetEpoch": found.sync_state_set_epoch,
        "inSyncReplicas": [row(each) for each in ids if each in found.sync_state_set],
        "notInSyncReplicas": [row(each) for each in ids if each not in found.sync_state_set],
    }


@_handles(RequestCode.CLEAN_BROKER_DATA)
async def _clean(c: Requests, request: Command, connection: object) -> Command:
    name = _name(request)
    text = request.text_field("brokerControllerIdsToClean") or ""
    words = [each.strip() for each in text.split(";") if each.strip()]
    if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in words):
        return request.reply(
            ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            f"brokerControllerIdsToClean is not a list of ids: {text[:40]!r}; write it as 1;2",
        )
    asked = Clean(
        ids=frozenset(map(int, words)),
        living=request.bool_field("isCleanLivingBroker", False),
        cluster=request.text_field("clusterName") or None,
    )
    decision, _ = await c.elections.clean(
        name,
        lambda found: decisions.clean(found, asked, c.elections.living(found)),
    )
    if decision.code != ResponseCode.SUCCESS:
        return _refused(request, decision)
    _log.info("broker %s: replicas %s cleaned", name, sorted(asked.ids) or "all")
    return request.reply()


@_handles(RequestCode.UPDATE_CONTROLLER_CONFIG)
async def _update_config(c: Requests, request: Command, connection: object) -> Command:
    told = await c.config.update(request.body)
    return request.reply(remark=told or None)


@_handles(RequestCode.GET_CONTROLLER_CONFIG)
async def _get_config(c: Requests, request: Command, connection: object) -> Command:
    return request.reply(body=c.config.text())
