"""Topic: its queues on each broker, consumers and producers; changed, deleted, sent to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rmq.client.blocking import admin, topics
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing
from rmq.console.change import Change, Plan
from rmq.console.console import console_of
from rmq.console.forms import Field, chosen, flag, long_text, pairs, text, topic_name, whole
from rmq.console.page import page, url
from rmq.console.pages.topics import PERM_CHOICES, page_of
from rmq.console.section import section
from rmq.errors import RmqError
from rmq.limits import TOPIC_QUEUES_MAX
from rmq.names import CLIENT_PRODUCER_GROUP
from rmq.operations.client_keywords import client_keywords
from rmq.operations.texts import counted
from rmq.operations.times import duration_ms
from rmq.operations.topic_changes import PERMS, check_change, described, perm_text, unread

GROUPS_SHOWN_MAX = 50


class TopicQueues(msgspec.Struct):
    queues: list[topics.QueueState]
    addresses: dict[str, str]  # broker name -> address, of the brokers with the topic

    @property
    def messages(self) -> int:
        return sum(each.messages for each in self.queues)


class GroupLag(msgspec.Struct):
    group: str
    lag: int | None


def topic_queues(cluster: Cluster, topic: str, missing: Missing | None = None) -> TopicQueues:
    """The topic's queues. RemoteError: there is no such topic."""
    route = cluster.route(topic)
    addresses = {name: entry.any_address or "" for name, entry in sorted(route.brokers.items())}
    return TopicQueues(topics.queues(cluster, topic, missing), addresses)


def topic_groups(cluster: Cluster, topic: str, missing: Missing) -> list[GroupLag]:
    """The groups that consume the topic, each with its lag in it. The lag is asked only for the
    first GROUPS_SHOWN_MAX groups."""
    found = []
    for at, group in enumerate(admin.groups_of_topic(cluster, topic, missing)):
        lag = None
        if at < GROUPS_SHOWN_MAX:
            progress, _ = admin.group_progress(cluster, group, topic, missing)
            lag = sum(each.lag for each in progress)
        found.append(GroupLag(group, lag))
    return found


async def topic(request: Request) -> Response:
    console, name = console_of(request), request.query_params.get("topic", "")
    missing: Missing = {}
    queues = await console.ask_some(request, missing, topic_queues, name)
    groups = await section(console.ask_some(request, missing, topic_groups, name))
    producers = await section(console.ask_some(request, missing, admin.producers))
    return page(
        request, "topic.html", topic=name, queues=queues, groups=groups, producers=producers,
        perm_text=perm_text, missing=missing,
    )  # fmt: skip


# ---- changed


def _there(cluster: Cluster, name: str) -> list[topics.TopicState]:
    found = [state for _, state in topics.states(cluster, name) if state is not None]
    if not found:
        cluster.route(name)  # raises RmqError when the topic does not exist
        raise RmqError(f"Topic {name} is on no master.")
    return found


def _present(cluster: Cluster, given: Mapping[str, str]) -> dict[str, str]:
    state = _there(cluster, given.get("topic", ""))[0]
    return {
        "read_queues": str(state.read_queues), "write_queues": str(state.write_queues),
        "perm": perm_text(state.perm), "order": "yes" if state.order else "",
    }  # fmt: skip


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "read_queues": values["read_queues"], "write_queues": values["write_queues"],
        "perm": PERMS[values["perm"]], "order": values["order"],
    }  # fmt: skip


def _check(there: list[topics.TopicState], values: Mapping[str, Any]) -> None:
    check_change(there, _named(values), "the queues that new messages go to")


def _plan_update(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    there = _there(cluster, values["topic"])
    _check(there, values)
    lost = unread(cluster, there, _named(values))
    if lost:
        lost.append("They stay in the store, and can be read again.")
    queues = f"{values['read_queues']} to read and {values['write_queues']} to write"
    order = ", ordered" if values["order"] else ""
    lines = [f"Now: {described(state)}." for state in there]
    return Plan([*lines, f"Then on each: queues {queues}, {values['perm']}{order}."], lost)


def _update(cluster: Cluster, values: Mapping[str, Any]) -> str:
    there = _there(cluster, values["topic"])
    _check(there, values)
    after = [topics.change(cluster, state, **_named(values)) for state in there]
    return f"Topic {values['topic']} was changed: {'; '.join(map(described, after))}."


def _plan_delete(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    name = values["topic"]
    found = topic_queues(cluster, name)
    lines = [f"Topic {name} is deleted on {', '.join(found.addresses)} and at the name servers."]
    groups = admin.groups_of_topic(cluster, name)
    warnings = [f"{counted(found.messages, 'message')} of it can be read no more."]
    if groups:
        warnings.append(f"These groups lose their progress in it: {', '.join(groups)}.")
    return Plan(lines, warnings)


def _delete(cluster: Cluster, values: Mapping[str, Any]) -> str:
    admin.delete_topic(cluster, values["topic"])
    return f"Topic {values['topic']} was deleted."


# ---- sent to


def _plan_send(cluster: Cluster, values: Mapping[str, Any]) -> Plan:
    cluster.route(values["topic"])
    size = len((values["body"] or "").encode())
    lines = [f"A message of {counted(size, 'byte')} is sent to topic {values['topic']}."]
    if values["delay"] is not None:
        lines.append(f"Consumers see it after {values['delay']} ms.")
    return Plan([*lines, "Every group that reads the topic gets it."])


def _send(cluster: Cluster, values: Mapping[str, Any]) -> str:
    from cext.client.message import Message
    from rmq.client.threaded.producer import Producer

    message = Message(values["topic"], (values["body"] or "").encode())
    for name, value in (values["properties"] or {}).items():
        message.put_property(name, value)
    if values["tag"] is not None:
        message.tags = values["tag"]
    if values["keys"] is not None:
        message.keys = values["keys"]
    if values["delay"] is not None:
        message.put_property("TIMER_DELAY_MS", values["delay"])
    keywords = client_keywords(cluster.asker)
    keywords["namesrv_addr"] = ";".join(cluster.name_servers)
    with Producer(CLIENT_PRODUCER_GROUP, **keywords) as producer:
        sent = producer.send(message)
    place = f"{sent.queue.broker_name}, queue {sent.queue.queue_id}, offset {sent.queue_offset}"
    return f"Sent: {sent.status}, {place}, id {sent.message_id}."


TOPIC = Field("topic", "Topic", topic_name, "hidden")

UPDATE = Change(
    "/topic/update", "Change a topic", "Change it",
    (
        TOPIC,
        Field("read_queues", "Queues that are read", whole(1, TOPIC_QUEUES_MAX), "number",
              help="On each broker. Fewer: messages in those that go are read no more."),
        Field("write_queues", "Queues that new messages go to", whole(1, TOPIC_QUEUES_MAX),
              "number"),
        Field("perm", "Permission", chosen(*PERMS), "select", choices=PERM_CHOICES),
        Field("order", "Ordered: a fixed set of queues", flag, "checkbox", is_required=False),
    ),
    plan=_plan_update, carry_out=_update, back=page_of("topic"), prefill=_present,
)  # fmt: skip
DELETE = Change(
    "/topic/delete", "Delete a topic", "Delete it", (TOPIC,),
    plan=_plan_delete, carry_out=_delete, back=lambda _: "/topics", is_grave=True,
)  # fmt: skip
SEND = Change(
    "/topic/send", "Send a message", "Send it",
    (
        TOPIC,
        Field("body", "Body", long_text, "textarea", is_required=False, help="Text, as UTF-8."),
        Field("tag", "Tag", text, is_required=False),
        Field("keys", "Keys", text, is_required=False, help="Separated by blanks."),
        Field("properties", "Properties", pairs, "textarea", is_required=False,
              help="name=value, one a line."),
        Field("delay", "Delay", duration_ms, is_required=False,
              help="Consumers see it after this time: 500ms, 10s, 5m, 2h, 1d."),
    ),
    plan=_plan_send, carry_out=_send, back=lambda values: url("/messages", topic=values["topic"]),
)  # fmt: skip

ROUTES = {"/topic": topic}
CHANGES = (UPDATE, DELETE, SEND)
