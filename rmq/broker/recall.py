"""Handler of 370 RECALL_MESSAGE: a timed message that is not due yet is not delivered.

    recallHandle  base64url("v1 topic brokerName timestamp UNIQ_KEY"), from the send's reply
    stored        a timed message of its own, due when the message is, with TIMER_DEL_UNIQKEY =
                  topic + "+" + UNIQ_KEY: when both are due, the reactor drops the message
                  (cext/flow/delay/timer_deliver.pxd)

The answer says that the recall is stored, not that there is such a message. It is refused while
recallMessageEnable is false, as in Apache RocketMQ by default.

Example: handle of "v1 t broker-a 1763726410001 0A..": a message with TIMER_OUT_MS 1763726410000 and
TIMER_DEL_UNIQKEY "t+0A.." is stored; the answer's msgId is "0A..".
"""

import base64
import binascii
import time
from typing import TYPE_CHECKING

from rmq.broker import names
from rmq.broker.data_version import now_ms
from rmq.broker.request import Refusal, Reply, Request
from rmq.broker.topic_config import PERM_WRITE
from rmq.codes import ResponseCode
from rmq.errors import ProtocolError, StoreError
from rmq.format.message import Host, encode_host, encode_properties

if TYPE_CHECKING:
    from rmq.broker.broker import Broker

TAG = "_RECALL_TAG_"
TIME_DIGITS_MAX = 15
HANDLE_CHARACTERS_MAX = 4096
_INVALID = "recall handle is invalid"


def decode_handle(handle: str) -> tuple[str, str, str, str]:
    """Topic, broker name, timestamp and unique key; Refusal when it is no handle."""
    try:
        if not handle.isascii() or len(handle) > HANDLE_CHARACTERS_MAX:
            raise ValueError
        padded = handle + "=" * (-len(handle) % 4)
        items = base64.b64decode(padded, b"-_", validate=True).decode().split(" ")
    except (ValueError, binascii.Error):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID) from None
    if len(items) < 5 or items[0] != "v1":
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)
    return items[1], items[2], items[3], items[4]


def recall(broker: "Broker", request: Request) -> Reply:
    command, settings = request.command, broker.settings
    topic = command.require("topic")
    handle = command.require("recallHandle")
    if not settings.recallMessageEnable:
        raise Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if (
        time.time() * 1000 < settings.startAcceptSendRequestTimeStamp
        or not settings.brokerPermission & PERM_WRITE
    ):
        raise Refusal(
            ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
        )
    if broker.topics.get(topic) is None:
        raise Refusal(
            ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{topic:.255}] not exist"
        )
    of_topic, of_broker, timestamp, key = decode_handle(handle)
    if of_topic != topic:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if of_broker != settings.brokerName:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, broker service not available")
    decimal = timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= TIME_DIGITS_MAX
    left_ms = (int(timestamp) if decimal else 0) - now_ms()
    if left_ms <= 0 or left_ms >= settings.timerMaxDelaySec * 1000:
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    _store(broker, request, topic, int(timestamp), key)
    return command.reply(fields={"msgId": key, "MSG_REGION": settings.regionId})


def _born_host(address: str) -> bytes:
    ip, _, port = address.rpartition(":")
    try:
        return encode_host(Host(ip.strip("[]"), int(port)))
    except (ProtocolError, ValueError):
        return encode_host(Host("127.0.0.1", 0))


def _store(broker: "Broker", request: Request, topic: str, due_ms: int, key: str) -> None:
    precision = broker.settings.timerPrecisionMs
    born_ms = now_ms()
    properties = {
        "TIMER_DEL_UNIQKEY": f"{topic}+{key}",
        "UNIQ_KEY": key,
        "TIMER_DELIVER_MS": str(due_ms),
        "BORN_TIMESTAMP": str(born_ms),
        "PGROUP": request.command.text_field("producerGroup") or "",
        "TAGS": TAG,
        "TIMER_OUT_MS": str((due_ms - 1) // precision * precision),
        "REAL_TOPIC": topic,
        "REAL_QID": "0",
    }
    if any("\x01" in value or "\x02" in value for value in properties.values()):
        raise Refusal(ResponseCode.ILLEGAL_OPERATION, _INVALID)
    try:
        broker.core.append(
            names.TIMER_TOPIC.encode(),
            0,
            b"0",
            encode_properties({name: value for name, value in properties.items() if value}),
            0,
            0,
            born_ms,
            _born_host(request.connection.address),
            0,
            0,
            due_ms,
        )
    except StoreError:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "recall failed, execute error") from None
