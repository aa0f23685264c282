"""Handler of a message that a consumer could not consume: 36 CONSUMER_SEND_MSG_BACK.

    offset -> the stored message -> a copy of it, reconsumeTimes + 1, to
        %RETRY%group, after delay level delayLevel (0: 3 + times so far)
        %DLQ%group, at once, when it was retried retryMaxTimes times or delayLevel < 0

The copy keeps body, tags, keys and born fields, names its first topic in RETRY_TOPIC and its first
id in ORIGIN_MESSAGE_ID. The answer goes out when the copy is written: a broker killed after it has
the copy, still waiting or delivered.

Example: the first failure in group g gives reconsumeTimes 1, level 3: 10 s later the consumer gets
it from %RETRY%g.
"""

import random
from typing import TYPE_CHECKING

from rmq.broker import names
from rmq.broker.delays import HOST_FLAGS
from rmq.broker.request import Refusal, Reply, Request
from rmq.broker.topic_config import PERM_WRITE
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError
from rmq.format.message import StoredMessage, decode_message, encode_host, encode_properties

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

VERSION_RECONSUME = 121  # V3_4_9: from here on the header's maxReconsumeTimes counts
FIRST_LEVEL = 3


async def send_back(broker: "Broker", request: Request) -> Reply:
    command = request.command
    offset = command.int_field("offset", minimum=0)
    delay_level = command.int_field("delayLevel", minimum=-(2**31), maximum=2**31 - 1)
    group = broker.groups.require(names.check_group(command.require("group")))
    if not broker.settings.brokerPermission & PERM_WRITE:
        raise Refusal(
            ResponseCode.NO_PERMISSION,
            f"the broker[{broker.settings.brokerIP1}] does not take sends at present",
        )
    if group.retry_queues <= 0:
        return command.reply()
    times_max = group.retry_times_max
    if command.version >= VERSION_RECONSUME:
        times_max = command.int_field("maxReconsumeTimes", times_max)
    unit_mode = command.bool_field("unitMode", False)
    retry = await broker.topics.create_retry(group.name, group.retry_queues, unit_mode)
    if not retry.perm & PERM_WRITE:
        raise Refusal(ResponseCode.NO_PERMISSION, f"topic[{retry.name}] takes no messages")
    source = _find(broker, offset)
    copy = _copy(source)
    if source.reconsume_times >= times_max or delay_level < 0:
        topic = await broker.topics.create_dead_letter(group.name)
        copy.topic, copy.queue_id = topic.name, 0
        _append_now(broker, copy)
        return command.reply()
    queues = max(1, min(group.retry_queues, retry.queues))
    copy.topic, copy.queue_id = retry.name, random.randrange(queues)
    broker.delays.put(copy, delay_level or FIRST_LEVEL + source.reconsume_times)
    return command.reply()


def _find(broker: "Broker", offset: int) -> StoredMessage:
    record = broker.core.read_record(offset)
    if record is None:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f"no message starts at offset {offset} of the commit log"
        )
    try:
        return decode_message(record)[0]
    except ProtocolError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"message at {offset}: {error}") from None


def _copy(source: StoredMessage) -> StoredMessage:
    properties = source.properties
    properties.setdefault("RETRY_TOPIC", source.topic)
    properties.setdefault("ORIGIN_MESSAGE_ID", source.message_id)
    properties["WAIT"] = "false"
    return StoredMessage(
        topic=source.topic,
        body=source.body,
        properties_bytes=encode_properties(properties),
        flag=source.flag,
        sys_flag=source.sys_flag,
        born_timestamp_ms=source.born_timestamp_ms,
        born_host=source.born_host,
        reconsume_times=source.reconsume_times + 1,
    )


def _append_now(broker: "Broker", message: StoredMessage) -> None:
    properties = {**message.properties, "DELAY": "0"}
    broker.core.append(
        message.topic.encode(),
        message.queue_id,
        message.body,
        encode_properties(properties),
        message.flag,
        message.sys_flag & ~HOST_FLAGS,
        message.born_timestamp_ms,
        encode_host(message.born_host),
        message.reconsume_times,
        message.prepared_offset,
    )
