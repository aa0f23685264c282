"""Stored messages: the bytes in commit logs, in pull replies and in transaction checks.

One record, big endian; hosts are 4 + 4 bytes (ip, port) or 16 + 4 when sysFlag says IPv6:

    @0  totalSize i32        @20 queueOffset i64       @48 bornHost 8 | 20
    @4  magic i32            @28 physicalOffset i64        storeTimestamp i64
    @8  bodyCRC i32          @36 sysFlag i32               storeHost 8 | 20
    @12 queueId i32          @40 bornTimestamp i64         reconsumeTimes i32
    @16 flag i32                                           preparedTransactionOffset i64
    then body (i32 length), topic (u8 length, u16 in version 2), properties (u16 length, <= 32767)

Version 1 (magic DAA320A7) holds topics of up to 127 bytes, version 2 (DAA320AB) up to 255. bodyCRC
is the CRC-32 of the stored body without its sign bit. Properties: name 01 value 02 name 01 ...

Example: body "hi", topic "T", no properties, IPv4 hosts: 91 + 2 + 1 = 94 bytes.

This is the pure-Python twin of cext/store/log/record: the command line, Spark and tools read with
it, and tests compare the compiled half with it. decode_message() raises ProtocolError and nothing
else.
"""

import ipaddress
import socket
import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from rmq.codes import BORNHOST_V6_FLAG, MAGIC_V1, MAGIC_V2, STOREHOSTADDRESS_V6_FLAG
from rmq.errors import ProtocolError
from rmq.limits import PROPERTIES_BYTES_MAX, TOPIC_BYTES_MAX, TOPIC_BYTES_V1_MAX

MAGIC_BLANK = 0xCBD43194  # fills a commit-log file to its end


RECORD_CRC_NAME = b"__CRC32#\x01"
RECORD_CRC_BYTES = 20


_HEAD = struct.Struct(">iIIiiqqiq")
_STORE = struct.Struct(">iq")


class Host(NamedTuple):
    """An address as stored: numeric, never a name."""

    ip: str
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class StoredMessage(msgspec.Struct, kw_only=True):
    """One record. Times are milliseconds since 1970; `body` is as stored, perhaps compressed."""

    topic: str
    body: bytes = b""
    properties_bytes: bytes = b""
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int = 0
    born_host: Host = Host("127.0.0.1", 0)
    store_timestamp_ms: int = 0
    store_host: Host = Host("127.0.0.1", 0)
    reconsume_times: int = 0
    prepared_offset: int = 0

    @property
    def properties(self) -> dict[str, str]:
        return decode_properties(self.properties_bytes)

    @property
    def message_id(self) -> str:
        """The offset message id: the broker that stored the record, and its place in the log."""
        return encode_message_id(self.store_host, self.physical_offset)


# ---- records


def decode_message(
    data: bytes | bytearray | memoryview, start: int = 0, check_crc: bool = True
) -> tuple[StoredMessage, int]:
    """The record at `start` and the position after it; ProtocolError if there is none."""
    view = memoryview(data).cast("B")
    if len(view) - start < _HEAD.size:
        raise ProtocolError(f"a record of at least 91 bytes was expected, {len(view) - start} left")
    (size, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms) = (
        _HEAD.unpack_from(view, start)
    )
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise ProtocolError(f"not a message: magic {magic:08X}")
    if not 91 <= size <= len(view) - start:
        raise ProtocolError(f"a record of {size} bytes, {len(view) - start} left")
    reader = _Reader(bytes(view[start : start + size]), _HEAD.size)
    born_host = reader.host(bool(sys_flag & BORNHOST_V6_FLAG))
    store_ms = reader.integer(8)
    store_host = reader.host(bool(sys_flag & STOREHOSTADDRESS_V6_FLAG))
    reconsume_times, prepared_offset = _STORE.unpack(reader.take(_STORE.size, "its fixed part"))
    body = reader.counted(4, "body")
    topic = reader.counted(1 if magic == MAGIC_V1 else 2, "topic")
    properties = reader.counted(2, "properties")
    if reader.at != size:
        raise ProtocolError(f"a record of {size} bytes whose fields end at {reader.at}")
    if check_crc and body_crc(body) != crc:
        raise ProtocolError(f"body does not match its CRC {crc:08X}")
    if check_crc and not record_crc_fits(reader.record, properties):
        raise ProtocolError("record does not match its CRC")
    message = StoredMessage(
        topic=topic.decode("utf-8", "replace"),
        body=body,
        properties_bytes=properties,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp_ms=born_ms,
        born_host=born_host,
        store_timestamp_ms=store_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
    )
    return message, start + size


def decode_messages(
    data: bytes | bytearray | memoryview, check_crc: bool = True
) -> Iterator[StoredMessage]:
    """All records of a pull reply, one after another; ProtocolError where they are malformed."""
    at = 0
    while at < len(data):
        message, at = decode_message(data, at, check_crc)
        yield message


class _Reader:
    """Takes fields from one record whose size is already checked."""

    def __init__(self, record: bytes, at: int) -> None:
        self.record = record
        self.at = at

    def take(self, length: int, what: str) -> bytes:
        if length > len(self.record) - self.at:
            raise ProtocolError(f"a record of {len(self.record)} bytes ends inside {what}")
        self.at += length
        return self.record[self.at - length : self.at]

    def integer(self, width: int) -> int:
        return int.from_bytes(self.take(width, "its fixed part"), "big", signed=True)

    def counted(self, width: int, what: str) -> bytes:
        signed = width != 1
        length = int.from_bytes(self.take(width, f"the length of {what}"), "big", signed=signed)
        if length < 0:
            raise ProtocolError(f"negative length of {what}")
        return self.take(length, what)

    def host(self, is_v6: bool) -> Host:
        return decode_host(self.take(20 if is_v6 else 8, "a host"))


def encode_message(message: StoredMessage, version: int | None = None) -> bytes:
    """The record; version 2 for topics above 127 bytes unless `version` is given.
    ProtocolError on bad sizes.

    The IPv6 bits of sys_flag follow from the hosts.
    """
    topic = message.topic.encode("utf-8", "replace")
    if version is None:
        version = 1 if len(topic) <= TOPIC_BYTES_V1_MAX else 2
    if len(topic) > (TOPIC_BYTES_V1_MAX if version == 1 else TOPIC_BYTES_MAX):
        raise ProtocolError(f"topic of {len(topic)} bytes in a record of version {version}")
    if len(message.properties_bytes) > PROPERTIES_BYTES_MAX:
        raise ProtocolError(f"properties of {len(message.properties_bytes)} bytes")
    born, store = encode_host(message.born_host), encode_host(message.store_host)
    sys_flag = message.sys_flag & ~(BORNHOST_V6_FLAG | STOREHOSTADDRESS_V6_FLAG)
    sys_flag |= BORNHOST_V6_FLAG if len(born) == 20 else 0
    sys_flag |= STOREHOSTADDRESS_V6_FLAG if len(store) == 20 else 0
    tail = b"".join(
        (
            born,
            message.store_timestamp_ms.to_bytes(8, "big", signed=True),
            store,
            _STORE.pack(message.reconsume_times, message.prepared_offset),
            len(message.body).to_bytes(4, "big"),
            message.body,
            len(topic).to_bytes(version, "big"),
            topic,
            len(message.properties_bytes).to_bytes(2, "big"),
            message.properties_bytes,
        )
    )
    head = _HEAD.pack(
        _HEAD.size + len(tail),
        MAGIC_V1 if version == 1 else MAGIC_V2,
        body_crc(message.body),
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.physical_offset,
        sys_flag,
        message.born_timestamp_ms,
    )
    return head + tail


def body_crc(body: bytes) -> int:
    """CRC-32 of zlib without the sign bit; 0 for no body."""
    return zlib.crc32(body) & 0x7FFFFFFF


def record_crc_pair(record: bytes) -> bytes:
    """The pair that may end a record's properties: the CRC-32 of all bytes before it (without the
    sign bit), ten decimal digits, the least significant first."""
    return RECORD_CRC_NAME + f"{body_crc(record):010d}"[::-1].encode() + b"\x02"


def record_crc_fits(record: bytes, properties: bytes) -> bool:
    """False when the record has a checksum of its own (or what is left of one) that is wrong."""
    if len(properties) < RECORD_CRC_BYTES:
        return True
    pair = properties[-RECORD_CRC_BYTES:]
    marks, right = pair[:9] + pair[19:], RECORD_CRC_NAME + b"\x02"
    flipped = int.from_bytes(marks, "big") ^ int.from_bytes(right, "big")
    if flipped.bit_count() > 2:
        return True
    return pair == record_crc_pair(record[:-RECORD_CRC_BYTES])


def encode_host(host: Host) -> bytes:
    """4 or 16 bytes of address and 4 of port."""
    try:
        return ipaddress.ip_address(host.ip).packed + host.port.to_bytes(4, "big", signed=True)
    except (ValueError, OverflowError) as error:
        raise ProtocolError(f"not an address: {host}: {error}") from None


@lru_cache(maxsize=1024)  # because all records of a store have the same few hosts
def decode_host(data: bytes) -> Host:
    """The host in what encode_host() makes: 8 or 20 bytes."""
    port = int.from_bytes(data[-4:], "big", signed=True)
    if len(data) == 8:  # without an object: two per message would cost a third of its decoding
        return Host(socket.inet_ntoa(data[:4]), port)
    return Host(str(ipaddress.ip_address(data[:-4])), port)


# ---- properties


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The stored form; ProtocolError for a name or value that would break it."""
    pieces = []
    for name, value in properties.items():
        if not name or any(mark in text for mark in "\x01\x02" for text in (name, value)):
            raise ProtocolError(f"not a property: {name[:80]!r}")
        pieces.append(f"{name}\x01{value}\x02")
    return "".join(pieces).encode("utf-8", "replace")


def decode_properties(data: bytes) -> dict[str, str]:
    """Name -> value. Pairs without a name or a value are ignored; of equal names the last wins."""
    found = {}
    for pair in data.decode("utf-8", "replace").split("\x02"):
        name, mark, value = pair.partition("\x01")
        if mark and name and value:
            found[name] = value
    return found


# ---- ids and hashes


def encode_message_id(store_host: Host, physical_offset: int) -> str:
    """Upper-case hex of host, port and offset: 32 digits, or 56 with an IPv6 host."""
    return (encode_host(store_host) + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_message_id(message_id: str) -> tuple[Host, int]:
    """(store host, physical offset); ProtocolError if it is not such an id."""
    try:
        data = bytes.fromhex(message_id)
    except ValueError:
        data = b""
    if len(data) not in (16, 28) or len(message_id) != 2 * len(data):
        raise ProtocolError(f"not an offset message id: {message_id[:80]!r}")
    return decode_host(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)


def java_hash(text: str) -> int:
    """String.hashCode(): 31 * h + unit over the UTF-16 units, as a signed 32-bit number."""
    result = 0
    if text.isascii():
        for unit in text.encode():
            result = (31 * result + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(units), 2):
            result = (31 * result + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return (result ^ 0x80000000) - 0x80000000


def tags_code(tags: str | None) -> int:
    """The tag code in a consume-queue entry; 0 without a tag."""
    return java_hash(tags) if tags else 0
