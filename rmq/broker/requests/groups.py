"""Groups: handlers of 200 update, 225 many, 201 all, 352 one, 207 delete, 353 forbid.

Example: 353 with group g, topic t, readable=false makes pulls of t by g end with code 16 until it
is called again with readable=true; the reply repeats {"group":"g","readable":false,"topic":"t"}.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from rmq.broker.dispatch.request import Handler, Reply, Request
from rmq.broker.json_members import list_member
from rmq.broker.name_checks import check_group, check_topic
from rmq.broker.tables import attributes
from rmq.broker.tables.groups import GroupConfig, GroupTable
from rmq.broker.tables.offsets import OffsetTable
from rmq.codes import RequestCode as Code
from rmq.errors import ProtocolError
from rmq.format import fastjson

GROUPS_MAX = 10_000  # of one request 225; RocketMQ has no such limit


class Context(Protocol):
    """What these handlers use of the broker."""

    groups: GroupTable
    offsets: OffsetTable


async def update_group(context: Context, request: Request) -> Reply:
    await context.groups.update(_changed(context, request.json_body()))
    return request.command.reply()


async def update_groups(context: Context, request: Request) -> Reply:
    items = list_member(request.json_body(), "groupConfigList")
    if len(items) > GROUPS_MAX:
        raise ProtocolError(f"a request for more than {GROUPS_MAX} groups")
    groups = []
    for item in items:
        if not isinstance(item, Mapping):
            raise ProtocolError("groupConfigList of the body holds something else than groups")
        groups.append(_changed(context, item))
    await context.groups.update(*groups)
    return request.command.reply()


def _changed(context: Context, members: Mapping[str, Any]) -> GroupConfig:
    """The group that a request asks for; the request's attributes are changes, not final values."""
    group = GroupConfig.of(members)
    present = context.groups.get(group.name)
    current = present.attributes if present is not None else {}
    altered = attributes.altered(
        attributes.GROUP, current, group.attributes, creating=present is None
    )
    return replace(group, attributes=altered)


def get_all_groups(context: Context, request: Request) -> Reply:
    """All groups, or with groupSeq and maxGroupNum a slice of them in order of name."""
    command = request.command
    content = context.groups.members()
    table = content["subscriptionGroupTable"]
    first = command.int_field("groupSeq", 0, 0)
    count = command.int_field("maxGroupNum", len(table), 0)
    chosen = sorted(table)[first : first + count]
    content["subscriptionGroupTable"] = {name: table[name] for name in chosen}
    return command.reply(fields={"totalGroupNum": len(table)}, body=fastjson.dumps(content))


def get_group(context: Context, request: Request) -> Reply:
    group = context.groups.require(request.command.require("group"))
    return request.command.reply(body=fastjson.dumps(group.members()))


async def delete_group(context: Context, request: Request) -> Reply:
    command = request.command
    group = check_group(command.require("groupName"))
    clean = command.bool_field("cleanOffset", False) or command.bool_field("removeOffset", False)
    await context.groups.delete(group)
    if clean:
        context.offsets.remove_group(group)
    await context.offsets.save(behind_max=1)  # so that no start makes it again from its old pops
    return command.reply()


async def forbid_reading(context: Context, request: Request) -> Reply:
    command = request.command
    group = check_group(command.require("group"))
    topic = check_topic(command.require("topic"))
    readable = command.bool_field("readable", None)
    if readable is not None:
        await context.groups.forbid_reading(group, topic, not readable)
    body = {"group": group, "readable": context.groups.may_read(group, topic), "topic": topic}
    return command.reply(body=fastjson.dumps(body))


HANDLERS: dict[int, Handler[Context]] = {
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: update_group,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: update_groups,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: get_all_groups,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: get_group,
    Code.DELETE_SUBSCRIPTIONGROUP: delete_group,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: forbid_reading,
}
