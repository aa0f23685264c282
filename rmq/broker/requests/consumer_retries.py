"""Consumer retries: requests 36 CONSUMER_SEND_MSG_BACK that the reactor could not do by itself.

The reactor makes the copy of the message (cext/flow/send/send_back.pxd). It hands a request over
when it does not know the group or its retry or dead letter topic, and when the broker takes no
sends. Checks and their order are RocketMQ's:

    1   group unknown and may not be made                                 26
    2   broker not writable                                               16
    3   the group has no retry queues: dropped                            0
    4   no message starts at the offset                                   1

Then the topics are made and the frame goes back; the reactor never hands the same frame over twice.

Example: the first failed message of group g makes %RETRY%g; one that failed too often, %DLQ%g.
"""

import asyncio
from typing import Protocol

from rmq.auth.permissions import SUB
from rmq.broker.access import Access
from rmq.broker.core_seam import ConnectionCalls, LogCalls
from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.name_checks import check_group
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.topics import TopicTable
from rmq.codes import PERM_WRITE, VERSION_RECONSUME, ResponseCode
from rmq.codes import RequestCode as Code
from rmq.config import Settings
from rmq.errors import ProtocolError
from rmq.format.message import decode_message
from rmq.limits import I32_MAX, I32_MIN
from rmq.refusal import Refusal


class CoreCalls(ConnectionCalls, LogCalls, Protocol):
    """What is used here of the core."""


class Context(Protocol):
    """What these handlers use of the broker."""

    access: Access
    groups: GroupTable
    settings: Settings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...


async def send_back(context: Context, request: Request) -> Reply:
    command = request.command
    offset = command.int_field("offset", minimum=0)
    delay_level = command.int_field("delayLevel", minimum=I32_MIN, maximum=I32_MAX)
    group = context.groups.require(check_group(command.require("group")))
    if not context.settings.brokerPermission & PERM_WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{context.settings.brokerIP1}] does not take sends at present",
        )
    if group.retry_queues <= 0:
        return command.reply()
    times_max = group.retry_times_max
    if command.version >= VERSION_RECONSUME:
        times_max = command.int_field("maxReconsumeTimes", times_max, I32_MIN, I32_MAX)
    unit_mode = command.bool_field("unitMode", False)
    await context.topics.create_retry(group.name, group.retry_queues, unit_mode)
    # Off the loop: the record may have to come from the disk.
    record = await asyncio.to_thread(context.core.read_record, offset)
    if record is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"no message starts at offset {offset} of the commit log"
        )
    context.access.require_record(request.asker, record, SUB)
    if delay_level < 0 or _times(record) >= times_max:
        await context.topics.create_dead_letter(group.name)
    context.groups.put_in_core(group.name)
    # The group's plain name, in case the client has escaped it.
    command.fields = {**command.fields, "group": group.name}
    context.core.resubmit(request.connection.number, request.frame)
    return None


def _times(record: bytes) -> int:
    """How often the message came before."""
    try:
        return decode_message(record)[0].reconsume_times
    except ProtocolError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the message is damaged: {error}") from None


HANDLERS: dict[int, Handler[Context]] = {
    Code.CONSUMER_SEND_MSG_BACK: send_back,
}
