"""SendBack: sends messages that could not be consumed to the group's retry topic, and at last to
its dead letters.

    sender.send_back(message, delay_level)       # the broker copies the message (36)
    sender.send_again(message)                   # this client sends a copy

With send_back the broker that stores the message copies it to %RETRY%group with a delay that grows
with reconsume_times (level 3 + times, or the level that is asked for); beyond max_reconsume_times,
or with level -1, it copies it to %DLQ%group. send_again is for a broker that is away, and for
messages consumed in order. Both return whether a broker has the copy.
"""

from __future__ import annotations

import itertools
import logging

from cext.client.message import Message, MessageExt, encoded_properties
from rmq.base import clock
from rmq.client.connection.instance import ClientInstance
from rmq.client.connection.namespaces import wrap
from rmq.codes import COMPRESSED_FLAG, COMPRESSION_TYPE_COMPARATOR, RequestCode, ResponseCode
from rmq.errors import RouteError
from rmq.names import AUTO_CREATE_TOPIC, CLIENT_PRODUCER_GROUP, RETRY_PREFIX

log = logging.getLogger("rmq.client")

BODY_FLAGS = COMPRESSED_FLAG | COMPRESSION_TYPE_COMPARATOR  # a copy's body stays packed
TIMEOUT_MS = 5_000
FIRST_DELAY_LEVEL = 3


def original_topic(message: MessageExt, group: str) -> str:
    """The topic that a retried message was first sent to; of other messages their own topic."""
    retry = RETRY_PREFIX + group
    if not message.topic.startswith(retry):
        return message.topic
    if message.topic == retry:
        return message.get_property("RETRY_TOPIC") or message.topic
    return message.topic[len(retry) + 1 :]  # retry topic of a pop: %RETRY%group_topic, or with a +


def pop_retry_topic(group: str, topic: str) -> str:
    """The topic to which brokers move messages that were popped and not acknowledged."""
    return f"{RETRY_PREFIX}{group}_{topic}"


class SendBack:
    """For one group in one client; any thread may use it."""

    def __init__(self, instance: ClientInstance, group: str, times_max: int) -> None:
        self._instance = instance
        self._group = group
        self._times_max = times_max
        self._turns = itertools.count()

    def send_back(self, message: MessageExt, delay_level: int = 0) -> bool:
        """Has the broker copy the message; if the broker does not, this client sends the copy."""
        try:
            fields = {
                "offset": message.commit_log_offset, "group": self._group,
                "delayLevel": delay_level, "originMsgId": message.message_id,
                "originTopic": wrap(self._instance.parameters.namespace, message.topic),
                "unitMode": self._instance.parameters.unit_mode,
                "maxReconsumeTimes": self._times_max, "bname": message.broker_name,
            }  # fmt: skip
            address = self._instance.routes.address_of(message.broker_name)
            code = RequestCode.CONSUMER_SEND_MSG_BACK
            self._instance.call(address, code, fields, b"", TIMEOUT_MS)
            return True
        except Exception as error:  # also from a hook
            log.warning("sending %s back: %s", message, error)
            return self.send_again(message)

    def send_again(self, message: MessageExt) -> bool:
        """Sends a copy to the retry topic, through any broker that has this topic."""
        topic = RETRY_PREFIX + self._group
        try:
            queues = self._instance.routes.of(topic).writable()
            if not queues:
                raise RouteError(ResponseCode.TOPIC_NOT_EXIST, f"{topic} has no queue")
            queue = queues[next(self._turns) % len(queues)]
            copy = self._copy(topic, message)
            fields = {
                "a": CLIENT_PRODUCER_GROUP, "b": topic, "c": AUTO_CREATE_TOPIC, "d": 4,
                "e": queue.queue_id, "f": message.sys_flag & BODY_FLAGS,
                "g": clock.now_ms(), "h": message.flag,
                "i": encoded_properties(copy).decode(), "j": message.reconsume_times + 1,
                "k": self._instance.parameters.unit_mode, "l": self._times_max, "m": False,
                "n": queue.broker_name,
            }  # fmt: skip
            address = self._instance.routes.address_of(queue.broker_name)
            self._instance.call(
                address, RequestCode.SEND_MESSAGE_V2, fields, message.stored_body, TIMEOUT_MS
            )
            return True
        except Exception as error:
            log.error("%s could not be sent to %s: %s", message, topic, error)
            return False

    def _copy(self, topic: str, message: MessageExt) -> Message:
        """The properties and delay level that the copy is sent with; its body is sent as it is
        stored."""
        copy = Message(topic, b"-", flag=message.flag)
        for name, text in message.properties.items():
            if name != "TRAN_MSG":
                copy.put_property(name, text)
        copy.put_property(
            "ORIGIN_MESSAGE_ID",
            message.get_property("ORIGIN_MESSAGE_ID") or message.message_id,
        )
        copy.put_property("RETRY_TOPIC", wrap(self._instance.parameters.namespace, message.topic))
        copy.delay_level = FIRST_DELAY_LEVEL + message.reconsume_times
        return copy
