"""Functions: message filters that the broker's owner writes in Python and names in the settings.

    rmqMessageFilters=vip=shopfilters:is_vip;eu=shopfilters:in_europe
    rmqMessageFilterPath=/etc/rmq/filters

with /etc/rmq/filters/shopfilters.py:

    def is_vip(message):
        return json.loads(message.body)["customer"] in VIPS

A consumer asks for one by the SQL92 expression "$filter = 'vip'" (sql92.py). The code comes only
from the broker's own machine, never over the network. It runs in a process of its own (worker.py),
to which the broker sends batches, and for which it never waits.

This module has what both processes agree on: frames of a u32 length and MessagePack.
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
READY = 0  # number of the answer that no question has: the worker has loaded its function
WANTED, UNWANTED, RAISED = 1, 0, 2  # verdicts; a message whose function raised is delivered
# Of an unpacked body. A larger one is judged as if its function had raised: it could use up the
# process's memory, or take longer than an answer may, and the group would never get past it.
BODY_BYTES_MAX = 16 << 20
_NAME = re.compile("[A-Za-z0-9_.-]{1,64}")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class Question(msgspec.Struct, array_like=True):
    """From broker to worker: records as they are stored, one after the other."""

    number: int
    records: bytes


class Answer(msgspec.Struct, array_like=True):
    """From worker to broker: one verdict for each record. The first answer is READY, and has no
    verdicts."""

    number: int
    verdicts: bytes
    error: str  # of the last message whose function raised


class Message(msgspec.Struct, frozen=True):
    """A message as a filter function gets it."""

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
    """name -> module:function, in the setting's order. Raises ConfigError if it is malformed."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, place = (piece.strip() for piece in part.partition("="))
        if not _NAME.fullmatch(name) or not _PLACE.fullmatch(place) or name in found:
            raise ConfigError(
                f"rmqMessageFilters={text}: {part!r} is no name=module:function, or names one twice"
            )
        found[name] = place
    return found
