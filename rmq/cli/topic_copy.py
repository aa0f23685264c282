"""`rmq topic copy`: copies a topic's settings, and its messages, to another topic or cluster.

The messages of a queue go to one queue, in their order: those of the first queue to the first queue
of the copy and so on, beginning again with the first one if the copy has fewer queues. They are
sent as new messages, a batch at a time (rmq/operations/message_copy.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from rmq.cli import missing_topic
from rmq.cli.context_file import Context, read_contexts
from rmq.cli.options import ADDRESSES, namesrv_option
from rmq.cli.output import Output, output_option
from rmq.cli.starts import start_option
from rmq.cli.store_places import progress_bar
from rmq.client.blocking import topics
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.tail import Start, span, tail
from rmq.client.blocking.topics import TopicState
from rmq.codes import PERM_WRITE
from rmq.errors import RmqError
from rmq.format.fastjson import MessageQueue
from rmq.names import CLIENT_PRODUCER_GROUP
from rmq.operations.client_keywords import client_keywords
from rmq.operations.message_copy import copy_of
from rmq.operations.texts import counted
from rmq.operations.topic_changes import PERMS, described, state_members

if TYPE_CHECKING:
    from cext.client.message import Message
    from rmq.client.parameters.keywords import ClientKeywords

BATCH_MESSAGES, BATCH_BYTES = 64, 256 << 10


@click.command()
@click.argument("source")
@click.argument("copy", required=False)
@click.option("--to-namesrv", type=ADDRESSES, metavar="HOST:PORT[;...]",
              help="Copy to the cluster with these name servers, without an account.")  # fmt: skip
@click.option("--to-context", metavar="NAME",
              help="Copy to this cluster: a name from `rmq context list`.")  # fmt: skip
@click.option("--to-cluster", metavar="NAME", help="Copy only to brokers of this cluster name.")
@click.option("--perm", type=click.Choice(list(PERMS)),
              help="Permissions of the copy.  [default: those of SOURCE]")  # fmt: skip
@click.option("--if-not-exists", is_flag=True,
              help="Keep the settings of a copy that exists.")  # fmt: skip
@click.option("--messages", is_flag=True, help="Copy the stored messages, too.")
@start_option(Start("first"), "With --messages: where to begin in each queue")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@namesrv_option
@output_option
def copy(
    source: str,
    copy: str | None,
    to_namesrv: str | None,
    to_context: str | None,
    to_cluster: str | None,
    perm: str | None,
    if_not_exists: bool,
    messages: bool,
    start: Start,
    yes: bool,
    namesrv: str,
    output: Output,
) -> None:
    """Make a topic like another one, here or in another cluster.

    COPY gets the queues, permissions, order and attributes of SOURCE. In another cluster, COPY may
    be left out: it then has the same name. Each broker gets the settings that SOURCE has on the
    broker of the same name, otherwise those of the broker with the most queues. SOURCE stays as it
    is, and no group is disturbed.
    """
    if to_namesrv is not None and to_context is not None:
        raise click.UsageError("--to-namesrv and --to-context cannot be used together")
    is_elsewhere = to_namesrv is not None or to_context is not None
    name = copy or source
    if name == source and not is_elsewhere:
        raise click.UsageError("give a COPY, or another cluster: --to-namesrv, --to-context")
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(namesrv))
        target, given = _target(to_namesrv, to_context, cluster, namesrv)
        if is_elsewhere:
            stack.enter_context(target)
        made = _settings(cluster, source, target, name, to_cluster, perm, if_not_exists)
        if messages and not all(each.state.perm & PERM_WRITE for each in made):
            raise click.ClickException(f"{name} would take no messages: give --perm rw")
        if not yes:
            _ask(source, made, target, messages)
        for each in made:
            if each.is_new:
                topics.make(target, each.state)
            output.say(f"{name}: {'' if each.is_new else 'exists, '}{described(each.state)}")
        told: dict[str, int] = {}
        if messages:
            places = _places(cluster, source, start)
            told = {"messages": _Messages(cluster, given, name).copy(places)}
            output.say(f"{name}: {counted(told['messages'], 'message')} copied")
    brokers = [{**state_members(each.state), "done": "created" if each.is_new else "exists"}
               for each in made]  # fmt: skip
    output.result("copied", None, topic=name, source=source, brokers=brokers, **told)


def _target(
    to_namesrv: str | None, to_context: str | None, cluster: Cluster, namesrv: str
) -> tuple[Cluster, ClientKeywords]:
    from rmq.cli.other_cluster import OtherCluster

    if to_namesrv is None and to_context is None:
        given = client_keywords()
        given["namesrv_addr"] = namesrv
        return cluster, given
    context = Context(to_namesrv) if to_namesrv is not None else (
        read_contexts().get(str(to_context)))  # fmt: skip
    other = OtherCluster(context)
    return other.cluster(), other.asker()


@dataclass(frozen=True)
class Copy:
    """The copy at one broker; is_new: it does not exist there yet, and will be made."""

    state: TopicState
    is_new: bool


def _settings(
    cluster: Cluster, source: str, target: Cluster, name: str, to_cluster: str | None,
    perm: str | None, if_not_exists: bool,
) -> list[Copy]:  # fmt: skip
    """The copy's settings at each broker of the target. ClickException: the copy exists already,
    or the topic is one that cannot be copied."""
    found = {state.broker.name: state for _, state in topics.states(cluster, source) if state}
    if not found:
        missing_topic.refuse(cluster, source)
    if any(state.is_static for state in found.values()):
        raise click.ClickException(f"topic {source} is a static one, which has no copies")
    largest = max(found.values(), key=lambda state: (state.read_queues, state.broker.name))
    made = []
    for broker, there in topics.states(target, name, to_cluster):
        if there is not None and not if_not_exists:
            raise click.ClickException(
                f"topic {name} exists: {described(there)}. Leave its settings as they are "
                "with --if-not-exists"
            )
        if there is not None:
            made.append(Copy(there, is_new=False))
            continue
        like = replace(found.get(broker.name, largest), broker=broker, topic=name)
        if perm is not None:
            like = replace(like, perm=PERMS[perm])
        made.append(Copy(like, is_new=True))
    return made


def _ask(source: str, made: list[Copy], target: Cluster, with_messages: bool) -> None:
    at = ";".join(target.name_servers)
    where = ", ".join(each.state.broker.name for each in made if each.is_new) or "no broker"
    more = ", and copy its messages" if with_messages else ""
    name = made[0].state.topic
    click.confirm(f"Make {name} like {source} on {where} at {at}{more}?", abort=True, err=True)


Places = list[tuple[MessageQueue, int, int]]  # (queue, first offset, end)


def _places(cluster: Cluster, source: str, start: Start) -> Places:
    """The queues to copy, each from its first offset by `start` to its present end."""
    queues = sorted(cluster.route(source).readable())
    return [(queue, *span(cluster, queue, start)) for queue in queues]


class _Messages:
    """Copies messages; `given`: name servers, account and TLS of the producer that sends them."""

    def __init__(self, cluster: Cluster, given: ClientKeywords, name: str) -> None:
        self._cluster, self._given, self._name = cluster, given, name
        self._done = 0

    def copy(self, places: Places) -> int:
        """How many there were."""
        from rmq.client.threaded.producer import Producer

        total = sum(end - first for _, first, end in places)
        try:
            with (
                progress_bar(f"copy to {self._name}") as progress,
                Producer(CLIENT_PRODUCER_GROUP, **self._given) as producer,
            ):
                queues = sorted(producer.queues(self._name))
                for at, (queue, first, end) in enumerate(places):
                    target = queues[at % len(queues)]
                    for batch in self._batches(queue, first, end):
                        producer.send_batch(batch, queue=target)
                        self._done += len(batch)
                        progress("messages", self._done, total)
        except (RmqError, KeyboardInterrupt):
            click.echo(f"{self._done} of {counted(total, 'message')} were copied so far", err=True)
            raise
        return self._done

    def _batches(self, queue: MessageQueue, first: int, end: int) -> Iterator[Sequence[Message]]:
        if first >= end:
            return
        batch: list[Message] = []
        size = 0
        for message in tail(
            self._cluster, queue.topic, start=Start("offset", first, end),
            queues=[queue.queue_id], broker=queue.broker_name,
        ):  # fmt: skip
            made = copy_of(message, self._name)
            batch.append(made)
            size += len(made.body)
            if len(batch) == BATCH_MESSAGES or size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
