"""JSON lines: a message as one JSON object, as `rmq consume --json` prints and `rmq send` takes it.

    {"broker":"broker-a","queue":3,"offset":17,"stored":1763726400000,"born":..,"born_host":"..",
     "id":"..","tag":"paid","keys":"7","reconsume_times":0,"properties":{..},"body":"hello"}

Times are ms since 1970. A body that is no text is "body_base64". To send, `body` or `body_base64`
is enough; tag, keys and properties are taken along, all that a broker or client gave the message is
not: it becomes a new one, with an id and an offset of its own.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from rmq.client.blocking.tail import ReceivedMessage
from rmq.errors import MessageError
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.operations.texts import as_text

if TYPE_CHECKING:
    from cext.client.message import Message

NAMES = {
    "topic", "broker", "queue", "offset", "stored", "born", "born_host", "id", "tag", "keys",
    "reconsume_times", "properties", "body", "body_base64", "packing",
}  # fmt: skip


def members(message: ReceivedMessage) -> dict[str, Any]:
    """The message as a JSON object."""
    stored = message.stored
    return {
        "broker": message.broker_name,
        "queue": stored.queue_id,
        "offset": stored.queue_offset,
        "stored": stored.store_timestamp_ms,
        "born": stored.born_timestamp_ms,
        "born_host": str(stored.born_host),
        "id": message.properties.get("UNIQ_KEY"),
        "tag": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "reconsume_times": stored.reconsume_times,
        "properties": message.properties,
        **body_members(message.body, message.packing),
    }


def body_members(body: bytes, packing: str | None = None) -> dict[str, str]:
    text = as_text(body) if packing is None else None
    if text is not None:
        return {"body": text}
    found = {"body_base64": base64.b64encode(body).decode()}
    return found if packing is None else {**found, "packing": packing}


def message_of(line: bytes, topic: str) -> Message:
    """A message to send; MessageError with what is wrong with the line."""
    from cext.client.message import Message  # who only prints needs no compiled module

    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MessageError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise MessageError('no JSON object, such as {"body": "hello"}')
    if unknown := found.keys() - NAMES:
        raise MessageError(f"unknown member {min(unknown)!r}: there are {', '.join(sorted(NAMES))}")
    if found.get("packing") is not None:
        raise MessageError(f"the body is as its sender packed it, by {found['packing']}: who gets "
                           "it would not unpack it")  # fmt: skip
    properties, tag, keys = (found.get(name) for name in ("properties", "tag", "keys"))
    if not isinstance(properties, dict | None):
        raise MessageError("member properties is not an object")
    if not isinstance(tag, str | None):
        raise MessageError("member tag is no text")
    if isinstance(keys, list):
        keys = " ".join(map(str, keys))
    if not isinstance(keys, str | None):
        raise MessageError("member keys is neither text nor a list")
    kept = {name: value for name, value in (properties or {}).items() if name not in OWN_PROPERTIES}
    for name, value in kept.items():
        if isinstance(value, dict | list):
            raise MessageError(f"property {name!r} is neither text nor a number")
    message = Message(topic, _body(found), properties=kept)
    message.tags = message.tags if tag is None else tag
    message.keys = message.keys if keys is None else keys
    return message


def _body(found: dict[str, Any]) -> bytes:
    if ("body" in found) == ("body_base64" in found):
        raise MessageError("one of the members body and body_base64 is wanted")
    body = found.get("body", found.get("body_base64"))
    if not isinstance(body, str):
        raise MessageError("the body is no text; what is none goes into body_base64")
    if "body" in found:
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except ValueError as error:  # binascii.Error, and what is no ASCII
        raise MessageError(f"member body_base64: {error}") from None
