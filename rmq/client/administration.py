"""Admin: topics, groups, offsets and stored messages, for programs.

    with Admin(namesrv_addr="127.0.0.1:9876") as admin:
        admin.create_topic("orders", queues=8)
        admin.message("7F00000100002A9F0000000000000061")
        admin.reset_offset("g", "orders", timestamp=...)

Topics and groups live on every master, so changes go to all masters and answers are merged. The
requests and the meaning of their answers are in rmq/client/blocking (admin, lookup), which the
command line uses over blocking sockets. Admin sends the same requests over the engine, or over a
transport that is given (rmq/client/blocking/transport.py), and puts names into the namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from cext.client.message import MessageExt, decode_messages, milliseconds
from cext.client.reply import Reply, reply_of
from rmq.client.blocking import admin, lookup
from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.client.blocking.tail import ReceivedMessage
from rmq.client.blocking.transport import Transport
from rmq.client.connection.instance import ClientInstance, not_open
from rmq.client.connection.name_servers import NameServerSource
from rmq.client.connection.namespaces import wrap
from rmq.client.connection.replicas import Purpose, Replica
from rmq.client.connection.routes import Route
from rmq.client.parameters import ClientParameters
from rmq.client.parameters.parameter_help import documented
from rmq.codes import FLAG_RESPONSE, PERM_READ, PERM_WRITE, ResponseCode
from rmq.errors import ProtocolError, RemoteError, not_copied
from rmq.format.fastjson import MessageQueue
from rmq.format.message import encode_message
from rmq.format.remoting import Command, encode

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rmq.client.parameters.keywords import ClientKeywords

LATEST = -1  # as a timestamp: the end of the queue


class EngineTransport:
    """Requests over the engine of a client instance; any thread may use it."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    def invoke(self, address: str, request: Command, timeout_s: float | None = None) -> Command:
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        reply = self._instance.ask(address, request.code, request.fields, request.body, timeout_ms)
        return Command(
            code=reply.code, flag=reply.flag, opaque=reply.opaque, version=reply.version,
            remark=reply.remark, fields=reply.fields, body=reply.body,
        )  # fmt: skip


class _InstanceView(ClusterView):
    """A view that shares its routes with the producers and consumers of a client instance."""

    def __init__(self, instance: ClientInstance) -> None:
        super().__init__(instance.name_servers, EngineTransport(instance), instance.routes.replicas)
        self._instance = instance

    def replica_of(self, name: str, purpose: Purpose, queue: MessageQueue | None = None) -> Replica:
        return self._instance.routes.replica_of(name, purpose, queue)

    def route(self, topic: str) -> Route:
        return self._instance.routes.of(topic, refresh=True)


@documented(ClientParameters)
class Admin:
    """Reads and changes what brokers and name servers know; any thread may use it.

    with Admin(namesrv_addr="127.0.0.1:9876") as admin:
        admin.create_topic("orders", 8)
        print(admin.progress("billing"))               # how far the group is, queue by queue
    """

    def __init__(
        self,
        *,
        parameters: ClientParameters | None = None,
        transport: Transport | None = None,
        **changes: Unpack[ClientKeywords],
    ) -> None:
        """transport: sends the requests instead of the client's engine; its owner closes it."""
        self.parameters = (parameters or ClientParameters()).changed(changes)
        self._transport = transport
        self._acquired: ClientInstance | None = None
        self._view: ClusterView | None = None

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "start one in each process, from its parameters")

    def start(self) -> Admin:
        """Connects; a `with` block does this."""
        if self._view is not None:
            return self
        if self._transport is not None:
            addresses = NameServerSource(self.parameters).addresses()
            self._view = ClusterView(addresses, self._transport)
        else:
            self._acquired = ClientInstance.acquire(self.parameters)
            self._view = _InstanceView(self._acquired)
        return self

    def close(self) -> None:
        """Closes the connections. It may be started again."""
        instance, self._acquired, self._view = self._acquired, None, None
        if instance is not None:
            instance.release()

    def __enter__(self) -> Admin:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _instance(self) -> ClientInstance:
        if self._acquired is None:
            raise not_open("Admin", is_closed=False)
        return self._acquired

    @property
    def _cluster(self) -> ClusterView:
        if self._view is None:
            raise not_open("Admin", is_closed=False)
        return self._view

    def _name(self, name: str) -> str:
        return wrap(self.parameters.namespace, name)

    def _queue(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=self._name(queue.topic))

    # ---- topics

    def create_topic(
        self, topic: str, queues: int = 8, *, perm: int = PERM_READ | PERM_WRITE,
        order: bool = False, cluster_name: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Creates the topic on every master (of one cluster), or changes it there. attributes: for
        example {"message.type": "DELAY"}."""
        admin.create_topic(
            self._cluster, self._name(topic), queues, perm=perm, order=order,
            cluster_name=cluster_name, attributes=attributes,
        )  # fmt: skip

    def delete_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """Deletes the topic from all brokers, or from those of one cluster."""
        admin.delete_topic(self._cluster, self._name(topic), cluster_name)

    def topics(self) -> list[str]:
        """The names of all topics, with system topics."""
        return self._cluster.topics()

    def route(self, topic: str) -> Route:
        """The brokers of the topic, and the queues of each."""
        return self._cluster.route(self._name(topic))

    def queue_ranges(self, topic: str) -> list[admin.QueueRange]:
        """The smallest offset and the next offset of every queue."""
        return admin.topic_queues(self._cluster, self._name(topic))

    # ---- groups

    def create_group(self, group: str, **settings: Any) -> None:
        """Creates the consumer group, or changes it. Settings have RocketMQ's names
        (retryMaxTimes=3)."""
        admin.create_group(self._cluster, self._name(group), settings)

    def delete_group(self, group: str, *, clean_offsets: bool = True) -> None:
        """Deletes the group. clean_offsets: its committed offsets, too."""
        admin.delete_group(self._cluster, self._name(group), clean_offsets=clean_offsets)

    def set_consume_mode(
        self, topic: str, group: str, mode: str, *, pop_share_queue_num: int = 0
    ) -> None:
        """Sets whether the group's push consumers with client_rebalance=False pull or pop the
        topic (mode PULL or POP). pop_share_queue_num: from how many neighbours' queues each
        consumer pops as well; 0: from all queues."""
        admin.set_consume_mode(
            self._cluster, self._name(topic), self._name(group), mode,
            pop_share_queue_num=pop_share_queue_num,
        )  # fmt: skip

    def groups(self) -> dict[str, dict[str, Any]]:
        """All consumer groups, by name, with their settings."""
        return admin.groups(self._cluster)

    def progress(self, group: str) -> list[admin.QueueProgress]:
        """How far the group is in each of its queues."""
        return admin.group_progress(self._cluster, self._name(group))[0]

    def members(self, group: str) -> dict[str, Any] | None:
        """The group's consumers and their subscriptions; None if no consumer is online."""
        return admin.group_members(self._cluster, self._name(group))

    # ---- offsets

    def min_offset(self, queue: MessageQueue) -> int:
        """The offset of the queue's first message."""
        return admin.min_offset(self._cluster, self._queue(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        return admin.max_offset(self._cluster, self._queue(queue))

    def offset_at(self, queue: MessageQueue, timestamp: Any, *, upper: bool = False) -> int:
        """The offset of the first message stored at or after a time (ms since 1970, or a
        datetime); upper: of the last message stored at or before it."""
        when = milliseconds(timestamp)
        return admin.offset_at(self._cluster, self._queue(queue), when, upper=upper)

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that the group has committed for this queue; None if it never committed."""
        return admin.committed_offset(self._cluster, self._name(group), self._queue(queue))

    def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Sets the group's committed offset. Its members must be offline, or they would set it
        back."""
        admin.commit_offset(self._cluster, self._name(group), self._queue(queue), offset)

    def reset_offset(
        self, group: str, topic: str, timestamp: Any = LATEST, *, force: bool = True
    ) -> dict[MessageQueue, int]:
        """Moves the group to a time in all queues of the topic (LATEST: to the end, so that waiting
        messages are skipped), and returns where it goes on. Consumers that are online go there."""
        when = milliseconds(timestamp)
        return admin.reset_offset(
            self._cluster, self._name(group), self._name(topic), when, force=force
        )

    # ---- messages

    def message(self, message_id: str, topic: str | None = None) -> MessageExt:
        """The message with this offset id; if a topic is given, also the message with this unique
        key."""
        try:
            return _received(lookup.by_id(self._cluster, message_id))
        except (ProtocolError, RemoteError):
            if topic is None:
                raise
        for found in self.messages(topic, message_id, unique=True):
            return found
        raise RemoteError(ResponseCode.NO_MESSAGE, f"no message {message_id} in {topic}")

    def messages(
        self, topic: str, key: str, *, unique: bool = False, count: int = 32, begin: Any = 0,
        end: Any = lookup.FOREVER,
    ) -> list[MessageExt]:  # fmt: skip
        """The topic's messages with this key (unique: with this unique key), oldest first."""
        kind = lookup.UNIQUE if unique else lookup.KEY
        found = lookup.by_key(
            self._cluster, self._name(topic), key, kind, count=count,
            begin_ms=milliseconds(begin), end_ms=milliseconds(end),
        )  # fmt: skip
        return [_received(each) for each in found]

    # ---- cluster

    def brokers(self) -> list[BrokerEntry]:
        """All brokers that name servers know, with slaves."""
        return self._cluster.brokers()

    def broker_info(self, broker: BrokerEntry) -> dict[str, str]:
        """A broker's figures about itself, by RocketMQ's names."""
        return admin.runtime_info(self._cluster, broker)


def _received(found: ReceivedMessage) -> MessageExt:
    """The message as consumers get it."""
    frame = encode(Command(code=0, flag=FLAG_RESPONSE, body=encode_message(found.stored)))
    reply: Reply = reply_of(frame)
    return decode_messages(reply, found.broker_name)[0]
