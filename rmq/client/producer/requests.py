"""Request and reply: a message whose sender waits for a consumer's reply to it.

    answer = producer.request(Message("quotes", b"EURUSD"), timeout_ms=2000)     # MessageExt
    ... and in the consumer:  producer.reply(message, b"1.08")

The request is an ordinary message with the properties CORRELATION_ID, REPLY_TO_CLIENT and TTL. The
reply is sent to the cluster's reply topic with code 325, and the broker pushes it (326) over the
connection of the client that asked.
"""

from __future__ import annotations

import uuid
from queue import Empty, SimpleQueue
from typing import Any

from cext.client.message import Message, MessageExt, decode_messages, encoded_properties
from cext.client.reply import Reply, reply_of
from rmq.base import waits
from rmq.client.connection.instance import ClientInstance
from rmq.client.producer.base import ProducerBase
from rmq.client.producer.targets import Targets
from rmq.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rmq.errors import MessageError, ProtocolError, RemoteError, RequestTimeoutError
from rmq.format.message import Host, StoredMessage, encode_message
from rmq.format.remoting import Command, encode
from rmq.names import reply_topic

SHARED = "requests"

Answer = SimpleQueue[MessageExt | Exception]  # the first one counts


def request(
    producer: ProducerBase, targets: Targets, message: Message, timeout_ms: float
) -> MessageExt:
    """Sends the message and waits for its reply. RequestTimeoutError: none came in time."""
    instance = producer.instance
    waiting = _waiting(instance)
    correlation = uuid.uuid4().hex
    message.put_property("CORRELATION_ID", correlation)
    message.put_property("REPLY_TO_CLIENT", instance.client_id)
    message.put_property("TTL", str(int(timeout_ms)))
    targets.of(message.topic)  # afterwards the topic's brokers are known
    # The reply comes over a connection of this client, so brokers must have its heartbeat first.
    instance.heartbeats.send(wait_ms=producer.parameters.mq_client_api_timeout, only_new=True)
    answer: Answer = SimpleQueue()
    waiting[correlation] = answer

    def sent(result: object, error: Exception | None) -> None:
        if error is not None:
            answer.put(error)

    try:
        producer.send_async(message, sent, timeout_ms=timeout_ms)
        found = waits.get(answer, timeout_ms / 1000)
    except Empty:
        raise RequestTimeoutError(
            f"request {correlation} on {message.topic}: no reply within {timeout_ms / 1000:.3g} s"
        ) from None
    finally:
        waiting.pop(correlation, None)
    if isinstance(found, Exception):
        raise found
    return found


def reply(producer: ProducerBase, asked: MessageExt, body: bytes) -> None:
    """Replies to a request. RemoteError: the broker can no longer reach the client that asked."""
    names = ("CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")
    found = {name: asked.get_property(name) for name in names}
    if found["CLUSTER"] is None or found["REPLY_TO_CLIENT"] is None:
        raise MessageError("nobody waits for a reply to this message: it was not sent by request()")
    message = Message(reply_topic(found["CLUSTER"]), body)
    message.put_property("MSG_TYPE", "reply")
    for name in names[1:]:
        if found[name] is not None:
            message.put_property(name, found[name])
    instance = producer.instance
    address = instance.routes.address_of(asked.broker_name)
    fields: dict[str, Any] = {
        "a": producer.group, "b": message.topic, "c": producer.parameters.create_topic_key,
        "d": producer.parameters.default_topic_queue_nums, "e": 0, "f": 0,
        "g": asked.born_timestamp, "h": message.flag, "i": encoded_properties(message).decode(),
        "j": 0, "k": False, "m": False, "n": asked.broker_name,
    }  # fmt: skip
    code = RequestCode.SEND_REPLY_MESSAGE_V2
    instance.call(address, code, fields, body, producer.parameters.send_msg_timeout)


def _waiting(instance: ClientInstance) -> dict[str, Answer]:
    """This client's requests under way, by correlation id."""
    found: dict[str, Answer] | None = instance.shared.get(SHARED)
    if found is None:
        table = found = instance.shared.setdefault(SHARED, {})

        def pushed(request: Reply, address: str) -> None:
            message = _pushed_message(request)
            answer = table.pop(message.get_property("CORRELATION_ID") or "", None)
            if answer is None:
                instance.notices.answer(
                    address, request, ResponseCode.SYSTEM_ERROR, remark="nobody waits for it"
                )
                return
            instance.notices.answer(address, request)
            answer.put(message)

        instance.notices.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed)
    return found


def _pushed_message(request: Reply) -> MessageExt:
    """The reply as a received message, whose parts are in the header of the broker's request."""
    fields = request.fields

    def host(name: str) -> Host:
        ip, _, port = fields.get(name, "").removeprefix("/").rpartition(":")
        return Host(ip.strip("[]"), int(port)) if ip and port.isdigit() else Host("127.0.0.1", 0)

    try:
        stored = StoredMessage(
            topic=fields["topic"], body=request.body, properties_bytes=fields.get(
                "properties", "").encode(), queue_id=request.int_field("queueId", 0),
            flag=request.int_field("flag", 0), sys_flag=request.int_field("sysFlag", 0),
            born_timestamp_ms=request.int_field("bornTimestamp", 0),
            store_timestamp_ms=request.int_field("storeTimestamp", 0),
            born_host=host("bornHost"), store_host=host("storeHost"),
        )  # fmt: skip
    except KeyError as error:
        raise RemoteError(ResponseCode.SYSTEM_ERROR, f"no field {error} in a reply") from None
    frame = encode(Command(code=0, flag=FLAG_RESPONSE, body=encode_message(stored)))
    for message in decode_messages(reply_of(frame)):
        return message
    raise ProtocolError("a pushed reply without a message")
