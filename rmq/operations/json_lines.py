"""JSON lines: a message as one JSON object, as `rmq consume --json` prints and `rmq send` takes it.

    {"topic":"orders","broker":"broker-a","queue":3,"offset":17,
     "stored":"2025-11-21T12:00:00.123Z","stored_ms":1763726400123,"born":"..","born_ms":..,
     "born_host":"..","id":"..","tag":"paid","keys":"7","reconsume_times":0,"properties":{..},
     "body":"hello"}

A body that is no text is "body_base64". A message with a sharding key has "sharding_key", a delayed
message "deliver_at" and "deliver_at_ms".

A line that is sent needs only `body` or `body_base64`. Its tag, keys, properties and sharding_key
are sent, too, and deliver_at (or deliver_at_ms) if that time is not over. What brokers or clients
gave the message is left out: it becomes a new message with an id and an offset of its own.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from rmq.client.blocking.tail import ReceivedMessage
from rmq.errors import MessageError
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.names import SHARDING_KEY
from rmq.operations.texts import as_text
from rmq.operations.times import LAST_MS, moment_members, moment_ms

if TYPE_CHECKING:
    from cext.client.message import Message

NAMES = {
    "topic", "broker", "queue", "offset", "stored", "stored_ms", "born", "born_ms", "born_host",
    "id", "tag", "keys", "sharding_key", "deliver_at", "deliver_at_ms", "reconsume_times",
    "properties", "body", "body_base64", "packing",
    "origin_topic", "offset_id", "groups",  # of `rmq dlq show` and `rmq message show`
}  # fmt: skip
DELIVER_AT = "TIMER_DELIVER_MS"
# When a delayed message is due: the sender's property, and the one in which brokers keep it.
_DELIVERY = (DELIVER_AT, "TIMER_OUT_MS")


def members(message: ReceivedMessage) -> dict[str, Any]:
    """The message as a JSON object."""
    stored = message.stored
    return {
        "topic": stored.topic,
        "broker": message.broker_name,
        "queue": stored.queue_id,
        "offset": stored.queue_offset,
        **moment_members("stored", stored.store_timestamp_ms),
        **moment_members("born", stored.born_timestamp_ms),
        "born_host": str(stored.born_host),
        **property_members(message.properties),
        "reconsume_times": stored.reconsume_times,
        "properties": message.properties,
        **body_members(message.body, message.packing),
    }


def property_members(properties: Mapping[str, str]) -> dict[str, Any]:
    """The members that are made of properties, such as id and tag."""
    found: dict[str, Any] = {
        "id": properties.get("UNIQ_KEY"),
        "tag": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
    }
    if sharding_key := properties.get(SHARDING_KEY):
        found["sharding_key"] = sharding_key
    texts = (properties.get(name, "") for name in _DELIVERY)
    due = next((text for text in texts if text.isdecimal() and len(text) < 16), None)
    return found if due is None else found | moment_members("deliver_at", int(due))


def body_members(body: bytes, packing: str | None = None) -> dict[str, str]:
    text = as_text(body) if packing is None else None
    if text is not None:
        return {"body": text}
    found = {"body_base64": base64.b64encode(body).decode()}
    return found if packing is None else {**found, "packing": packing}


def message_of(line: bytes, topic: str) -> Message:
    """A message to send; MessageError with what is wrong with the line."""
    from cext.client.message import Message  # printing alone needs no compiled module

    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MessageError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MessageError('not a JSON object such as {"body": "hello"}')
    if unknown := found.keys() - NAMES:
        raise MessageError(f"unknown key {min(unknown)!r}: known are {', '.join(sorted(NAMES))}")
    if found.get("packing") is not None:
        raise MessageError(f"the body is still packed by its sender ({found['packing']}), and "
                           "receivers would not unpack it")  # fmt: skip
    properties, tag, keys = (found.get(name) for name in ("properties", "tag", "keys"))
    if not isinstance(properties, dict | None):
        raise MessageError("properties is not an object")
    if not isinstance(tag, str | None):
        raise MessageError("tag is not text")
    if isinstance(keys, list):
        keys = " ".join(map(str, keys))
    if not isinstance(keys, str | None):
        raise MessageError("keys is neither text nor a list")
    kept = {name: value for name, value in (properties or {}).items() if name not in OWN_PROPERTIES}
    for name, value in kept.items():
        if isinstance(value, dict | list):
            raise MessageError(f"property {name!r} is neither text nor a number")
    message = Message(topic, _body(found), properties=kept)
    message.tags = message.tags if tag is None else tag
    message.keys = message.keys if keys is None else keys
    if (sharding_key := _sharding_key(found)) is not None:
        message.put_property(SHARDING_KEY, sharding_key)
    if (due_ms := _due_ms(found)) > time.time() * 1000:
        message.put_property(DELIVER_AT, due_ms)
    return message


def _sharding_key(found: dict[str, Any]) -> str | None:
    given = found.get("sharding_key")
    if not isinstance(given, str | None):
        raise MessageError("sharding_key is not text")
    return given or None


def _due_ms(found: dict[str, Any]) -> int:
    """When the message is due; 0: the line does not say it."""
    given, text = found.get("deliver_at_ms"), found.get("deliver_at")
    if given is not None:
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= LAST_MS:
            raise MessageError("deliver_at_ms is not a number of ms since 1970")
        return given
    if text is None:
        return 0
    if not isinstance(text, str):
        raise MessageError("deliver_at is not text; for a number use deliver_at_ms")
    try:
        return moment_ms(text)
    except ValueError as error:
        raise MessageError(f"deliver_at: {error}") from None


def _body(found: dict[str, Any]) -> bytes:
    if ("body" in found) == ("body_base64" in found):
        raise MessageError("give either body or body_base64")
    body = found.get("body", found.get("body_base64"))
    if not isinstance(body, str):
        raise MessageError("the body is not text; use body_base64 for other bytes")
    if "body" in found:
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:  # binascii.Error, or a character that is not ASCII
        raise MessageError(f"body_base64: {error}") from None
