"""Message copy: a new message made of a stored one, so that it can be sent again.

    copy_of(message, "orders")      has the body, tag, keys, flag and the sender's properties

Properties that brokers and clients made are left out: the copy gets an id and an offset of its own,
and comes at once, even if the stored message was delayed. Copies with the same sharding key go to
one queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rmq.client.blocking.tail import ReceivedMessage
from rmq.errors import MessageError, ProtocolError
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import CLIENT_PRODUCER_GROUP

if TYPE_CHECKING:
    from cext.client.message import Message
    from cext.client.result import SendResult
    from rmq.client.parameters.keywords import ClientKeywords


def copy_of(message: ReceivedMessage, topic: str) -> Message:
    """The copy, to be sent to `topic`; MessageError: the stored body cannot be unpacked."""
    from cext.client.message import Message, unpack_body

    stored = message.stored
    try:
        body = unpack_body(stored.sys_flag, stored.body)
    except ProtocolError as error:
        raise MessageError(f"{place_of(message)}: {error}") from None
    kept = {name: value for name, value in message.properties.items()
            if name not in OWN_PROPERTIES}  # fmt: skip
    return Message(topic, body, properties=kept, flag=stored.flag)


def place_of(message: ReceivedMessage) -> str:
    stored = message.stored
    return f"{message.broker_name}, queue {stored.queue_id}, offset {stored.queue_offset}"


def send_each(messages: Iterable[Message], given: ClientKeywords) -> Iterator[SendResult]:
    """Yields the result of each send when the message is stored. `given`: servers and account."""
    from rmq.client.threaded.producer import Producer

    with Producer(CLIENT_PRODUCER_GROUP, **given) as producer:
        for each in messages:
            yield producer.send(each)
