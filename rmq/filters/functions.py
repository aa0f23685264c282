"""Functions: message filters of the broker's owner, written in Python, named in its settings.

    rmqMessageFilters=vip=shopfilters:is_vip;eu=shopfilters:in_europe
    rmqMessageFilterPath=/etc/rmq/filters

with /etc/rmq/filters/shopfilters.py:

    def is_vip(message):
        return json.loads(message.body)["customer"] in VIPS

A consumer asks for one by the SQL92 expression "$filter = 'vip'" (sql92.py). The code comes from
the broker's own machine only, never from the wire, and runs in a process of its own
(worker.py), which the broker feeds with batches and never waits for.

This page holds what both processes agree on: frames of u32 length and MessagePack.
"""

import re
import struct
from collections.abc import Mapping

import msgspec

from rmq.codes import COMPRESSED_FLAG, COMPRESSION_NAMES, COMPRESSION_TYPE_COMPARATOR
from rmq.errors import ConfigError
from rmq.format.message import StoredMessage
from rmq.format.packed_body import inflated

FRAME_LENGTH = struct.Struct("=I")
READY = 0  # number of the answer to no question: the worker has its function now
WANTED, UNWANTED, RAISED = 1, 0, 2  # verdicts; a message whose function raised is delivered
# Unpacked. A larger one is judged as if its function had raised: it would cost the process its
# memory, or more time than an answer may take, and the group could never go beyond it.
BODY_BYTES_MAX = 16 << 20
_NAME = re.compile("[A-Za-z0-9_.-]{1,64}")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class Question(msgspec.Struct, array_like=True):
    """Broker to worker: records as they are stored, one after the other."""

    number: int
    records: bytes


class Answer(msgspec.Struct, array_like=True):
    """Worker to broker: one verdict a record. The first one is READY, without verdicts."""

    number: int
    verdicts: bytes
    error: str  # of the last message whose function raised


class Message(msgspec.Struct, frozen=True):
    """What a filter function gets."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes  # unpacked when the sender packed it with zlib; at most BODY_BYTES_MAX
    properties: Mapping[str, str]
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> list[str]:
        return self.properties.get("KEYS", "").split()

    @classmethod
    def of(cls, stored: StoredMessage) -> "Message":
        body = stored.body
        packing = COMPRESSION_NAMES.get(stored.sys_flag & COMPRESSION_TYPE_COMPARATOR)
        if stored.sys_flag & COMPRESSED_FLAG and packing == "zlib":
            body = inflated(body, BODY_BYTES_MAX)
        return cls(
            stored.topic,
            stored.queue_id,
            stored.queue_offset,
            body,
            stored.properties,
            stored.born_timestamp_ms,
            stored.store_timestamp_ms,
            stored.reconsume_times,
        )


def named_functions(text: str) -> dict[str, str]:
    """name -> module:function, in the order of the setting; ConfigError when it is malformed."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, place = (piece.strip() for piece in part.partition("="))
        if not _NAME.fullmatch(name) or not _PLACE.fullmatch(place) or name in found:
            raise ConfigError(
                f"rmqMessageFilters={text}: {part!r} is no name=module:function, or names one twice"
            )
        found[name] = place
    return found
