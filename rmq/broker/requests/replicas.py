"""Replicas: handlers of 45 delay offsets, 60 and 61 timers, 906 exchange, 907 status, 908, 1007
epochs, 1008 role.

906 tells a slave where to get the log. A slave of rmq is also told when tables change
(rmq/broker/replication/exchange.py), and gets the batches popped in order by it. 908 sets a number
of RocketMQ's slaves that nothing reads: it is accepted without effect. RocketMQ's slaves send 60
and 61 every few seconds. 61 is answered with an empty table; a slave of rmq does not ask for it.

Example: 906 -> masterAddress 10.0.0.1:10911, masterHaAddress 10.0.0.1:10912, masterFlushOffset
5000.
"""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

import msgspec

from rmq.auth.guard import Guard
from rmq.base import clock
from rmq.broker.core_seam import DelayCalls, LogCalls, StatCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.replication.controlled_replication import ControlledReplication
from rmq.broker.replication.controller_link import replica_info
from rmq.broker.replication.exchange import WAIT_MS_MAX
from rmq.broker.replication.ha_port import not_a_replica
from rmq.broker.replication.metadata_copy import read_versions
from rmq.broker.replication.replication import Replication
from rmq.broker.replication.tail_checksum import tail_fault
from rmq.broker.tables.delay_levels import DelayLevels
from rmq.broker.tables.pop_orders import PopOrders
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.config import Settings
from rmq.format import fastjson
from rmq.format.timer_position import timer_check
from rmq.refusal import Refusal

BROKER_ID_MAX = 2**31 - 1


class CoreCalls(LogCalls, DelayCalls, StatCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What these handlers use of the broker."""

    delays: DelayLevels
    guard: Guard
    pop_orders: PopOrders
    replication: Replication
    settings: Settings

    @property
    def address(self) -> str: ...
    @property
    def core(self) -> CoreCalls: ...


def get_delay_offsets(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps(context.delays.content()))


def get_timer_check(context: Context, request: Request) -> Reply:
    """60: how far timed messages are delivered, in the form of RocketMQ's wheel: a RocketMQ slave
    that becomes master goes on from there."""
    position = context.core.timers_delivered()
    if position is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "no timed messages here: timerWheelEnable=false")
    return request.command.reply(body=timer_check(position, clock.wall()))


def get_timer_metrics(context: Context, request: Request) -> Reply:
    """61: how many timed messages of each topic wait, for RocketMQ's slaves: always an empty table.
    RocketMQ's wheel counts them by topic, rmq sorts timed messages by time alone. The number is
    only for people; a slave that becomes master begins to count at 0."""
    version = {"stateVersion": 0, "timestamp": 0, "counter": 0}
    return request.command.reply(body=fastjson.dumps({"dataVersion": version, "timingCount": {}}))


def exchange(context: Context, request: Request) -> Reply | Awaitable[Reply]:
    if context.replication.is_slave:  # 906 from a RocketMQ master brings its address: unused
        return request.command.reply(fields={"rmqTimers": _timers(context)})
    if request.command.text_field("rmqAccounts"):
        return _accounts(context, request)
    if request.command.text_field("rmqOrders"):
        return _orders(context, request)
    if request.command.text_field("rmqSlave"):
        return _exchange_tables(context, request)
    return request.command.reply(fields=_where(context))


async def _exchange_tables(context: Context, request: Request) -> Reply:
    """The answer to a slave of rmq. Answers may wait for what this slave says it has, and it
    takes one of few places."""
    command = request.command
    replicas = context.settings.rmqReplicaAddresses
    if why := not_a_replica(request.connection.address, replicas):
        raise Refusal(ResponseCode.NO_PERMISSION, why)
    if tail := command.text_field("rmqLogTail"):
        log_range = context.core.log_range()[:2]
        if why := await asyncio.to_thread(tail_fault, context.settings, log_range, tail):
            raise Refusal(ResponseCode.NO_PERMISSION, why)
    slave = command.int_field("rmqSlave", minimum=1, maximum=BROKER_ID_MAX)
    wait_ms = command.int_field("rmqWaitMillis", 0, 0, WAIT_MS_MAX)
    known, kept = (read_versions(command.text_field(each)) for each in ("rmqKnown", "rmqKept"))
    request.held_s = wait_ms / 1000
    versions = await context.replication.exchange.changed(slave, known, request.held_s, kept)
    if context.replication.is_slave:  # it has become one meanwhile
        return command.reply()
    text = msgspec.json.encode(versions).decode()
    return command.reply(fields={**_where(context), "rmqVersions": text})


async def _orders(context: Context, request: Request) -> Reply:
    return request.command.reply(body=await context.pop_orders.body())


def _accounts(context: Context, request: Request) -> Reply:
    """The accounts, which hold passwords, for a slave of rmq that signs as a Super user."""
    if not context.guard.is_on or not request.asker.is_super:
        why = "accounts are for Super users, where there are accounts"
    else:
        text, peer = request.command.fields["rmqAccounts"], request.connection.address
        replicas = context.settings.rmqReplicaAddresses
        why = context.replication.account_requests.refusal(text, peer, replicas)
    if why:
        raise Refusal(ResponseCode.NO_PERMISSION, why)
    return request.command.reply(body=msgspec.json.encode(context.guard.store.content()))


def _timers(context: Context) -> str | None:
    """The timers' position to the millisecond, where 60 has whole seconds. A slave's position tells
    a takeover how far it follows."""
    timers = context.core.timers_delivered()
    return " ".join(map(str, timers)) if timers is not None else None


def _where(context: Context) -> dict[str, object]:
    # Offsets cover everything that was appended, even if it could not be written.
    appended = context.core.delay_offsets()[1]
    begin, end, durable = context.core.log_range()
    return {
        "masterAddress": context.address,
        "masterFlushOffset": durable,
        "masterHaAddress": context.replication.ha_address or None,
        "rmqLogEnd": max(end, appended),
        # The content of a store pool will be written by itself, but never after a failed write.
        "rmqLogWritten": end if context.core.stats().get("poisoned") else max(end, appended),
        "rmqLogStart": begin,
        "rmqTimers": _timers(context),
    }


def get_ha_status(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps(context.replication.status()))


def reset_flush_offset(context: Context, request: Request) -> Reply:
    request.command.int_field("masterFlushOffset", minimum=0)
    if not context.replication.is_slave:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "masterFlushOffset is a slave's: this is a master")
    return request.command.reply()


def get_epochs(context: Context, request: Request) -> Reply:
    return request.command.reply(body=fastjson.dumps(controlled(context).epochs()))


def role_changed(context: Context, request: Request) -> Reply:
    """1008: takes a hint that seems to come from the controller; the controller is then asked."""
    controlled(context).role_notified(replica_info(request.command))
    return request.command.reply()


def controlled(context: Context) -> ControlledReplication:
    replication = context.replication
    if not isinstance(replication, ControlledReplication):
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, "this broker has no controller: enableControllerMode is off"
        )
    return replication


HANDLERS: dict[int, Handler[Context]] = {
    Code.GET_ALL_DELAY_OFFSET: get_delay_offsets,
    Code.GET_TIMER_CHECK_POINT: get_timer_check,
    Code.GET_TIMER_METRICS: get_timer_metrics,
    Code.EXCHANGE_BROKER_HA_INFO: exchange,
    Code.GET_BROKER_HA_STATUS: get_ha_status,
    Code.RESET_MASTER_FLUSH_OFFSET: reset_flush_offset,
    Code.GET_BROKER_EPOCH_CACHE: get_epochs,
    Code.NOTIFY_BROKER_ROLE_CHANGED: role_changed,
}
