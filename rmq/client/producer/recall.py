"""Recall: takes back a message that is delayed to a time.

    recall(producer, "reminders", result.recall_handle)      # its message id

A recall handle is the base64 text of several words; the third word names the broker that has the
message.
"""

from __future__ import annotations

import base64

from rmq.client.connection.namespaces import wrap
from rmq.client.producer.base import ProducerBase
from rmq.codes import RequestCode
from rmq.errors import MessageError


def recall(producer: ProducerBase, topic: str, handle: str) -> str:
    """Returns the message id. RemoteError: the broker does not allow it, or it is too late."""
    try:
        words = base64.urlsafe_b64decode(handle).decode().split(" ")
        broker_name = words[2]
    except (ValueError, IndexError):
        raise MessageError(f"not a recall handle: {handle[:80]!r}") from None
    name = wrap(producer.parameters.namespace, topic)
    fields = {"producerGroup": producer.group, "topic": name, "recallHandle": handle,
              "bname": broker_name}  # fmt: skip
    instance = producer.instance
    address = instance.routes.address_of(broker_name)
    reply = instance.call(address, RequestCode.RECALL_MESSAGE, fields)
    return reply.fields.get("msgId", "")
