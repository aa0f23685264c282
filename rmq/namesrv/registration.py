"""Registration of a broker: header and body of REGISTER_BROKER (103).

The body is JSON
    {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{..},
     "topicConfigTable":{"TopicA":{..}},"topicQueueMappingInfoMap":{..}}}
or, when the header says compressed=true, a zlib stream of
    i32 length + data version as JSON
    i32 number of topics, each i32 length + "name read write perm filterType attributes"
    i32 length + list of filter servers as JSON
    i32 number of queue maps, each i32 length + JSON      (from brokers of version 5.0.0 on)
Brokers older than 3.0.11 send the wrapper alone. bodyCrc32 in the header covers the body as sent.

Example: the line "TopicA 4 4 6 SINGLE_TAG {}" is TopicA with 4 read and 4 write queues, perm 6.

read() checks every length and number and raises ProtocolError, nothing else.
"""

import zlib
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rmq.errors import ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command

# The largest body after decompression: a million topics of 60 bytes. Guards against a zlib bomb.
BODY_BYTES_MAX = 64 * 1024 * 1024

VERSION_WITH_FILTER_SERVERS = 37  # V3_0_11
VERSION_WITH_QUEUE_MAPS = 413  # V5_0_0

MASTER_ID = 0

# The first byte of a zlib stream with the usual window; no JSON begins with it. Brokers of 5.x with
# compressedRegister=true compress the body and yet say compressed=false.
_ZLIB_HEAD = b"\x78"


_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class DataVersion(msgspec.Struct, frozen=True):
    """The state of a broker's topics: equal versions mean equal topics."""

    counter: _Long = 0
    stateVersion: _Long = 0
    timestamp: _Long = 0


class TopicConfig(msgspec.Struct):
    """A topic as its broker defines it; defaults are Java's for absent members."""

    topicName: str | None = None
    readQueueNums: _Count = 16
    writeQueueNums: _Count = 16
    perm: _Int = 6
    topicSysFlag: _Int = 0


class _Wrapper(msgspec.Struct):
    dataVersion: DataVersion | None = None
    topicConfigTable: dict[str, TopicConfig] | None = None
    topicQueueMappingInfoMap: dict[str, dict[str, Any]] | None = None


class _Body(msgspec.Struct):
    topicConfigSerializeWrapper: _Wrapper | None = None
    filterServerList: list[str] | None = None


class Registration(msgspec.Struct, kw_only=True):
    """One checked registration."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    zone: str | None
    heartbeat_timeout_ms: int | None  # None: the name server's default
    enable_acting_master: bool | None  # None: a broker older than 5.0 does not send it
    data_version: DataVersion
    topics: dict[str, TopicConfig]
    queue_maps: dict[str, dict[str, Any]]
    filter_servers: list[str] | None  # None: not in the request, so the known ones stay


def read(command: Command) -> Registration:
    """The registration in a REGISTER_BROKER request; ProtocolError when it cannot be one."""
    body_crc = command.int_field("bodyCrc32", 0, -(2**31), 2**31 - 1)
    if body_crc != 0 and (zlib.crc32(command.body) & 0x7FFFFFFF) != body_crc:
        raise ProtocolError(f"bodyCrc32 {body_crc} does not match the body: crc32 not match")
    body = _read_body(command)
    wrapper = body.topicConfigSerializeWrapper or _Wrapper()
    topics = {
        config.topicName or name: config
        for name, config in (wrapper.topicConfigTable or {}).items()
    }
    return Registration(
        cluster=command.require("clusterName"),
        broker_name=command.require("brokerName"),
        broker_id=command.int_field("brokerId", minimum=0),
        address=command.require("brokerAddr"),
        ha_address=command.require("haServerAddr"),
        zone=command.text_field("__ZONE_NAME"),
        heartbeat_timeout_ms=command.int_field("heartbeatTimeoutMillis", None, 0),
        enable_acting_master=command.bool_field("enableActingMaster", None),
        data_version=wrapper.dataVersion or DataVersion(),
        topics=topics,
        queue_maps=wrapper.topicQueueMappingInfoMap or {},
        filter_servers=body.filterServerList,
    )


def read_data_version(data: bytes) -> DataVersion:
    """The data version in the body of QUERY_DATA_VERSION."""
    return fastjson.loads_as(data, DataVersion, "data version", fastjson.LOOSE_REQUEST_BYTES_MAX)


def _read_body(command: Command) -> _Body:
    if not command.body:
        return _Body()
    if command.version < VERSION_WITH_FILTER_SERVERS:
        return _Body(fastjson.loads_as(command.body, _Wrapper, "topic table"))
    if command.bool_field("compressed", False) or command.body[:1] == _ZLIB_HEAD:
        return _read_compressed(command.body, command.version >= VERSION_WITH_QUEUE_MAPS)
    return fastjson.loads_as(command.body, _Body, "registration")


class _Reader:
    """Reads counted items from the decompressed body."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def count(self, what: str) -> int:
        """An i32 that counts things of at least four bytes, so it cannot exceed what is left."""
        number = self._number(what)
        if number * 4 > len(self.data) - self.at:
            raise ProtocolError(f"compressed registration: {number} {what} do not fit")
        return number

    def item(self, what: str) -> bytes:
        length = self._number(what)
        if length > len(self.data) - self.at:
            raise ProtocolError(f"compressed registration: {what} of {length} bytes is cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def _number(self, what: str) -> int:
        if len(self.data) - self.at < 4:
            raise ProtocolError(f"compressed registration ends before {what}")
        number = int.from_bytes(self.data[self.at : self.at + 4], "big", signed=True)
        self.at += 4
        if number < 0:
            raise ProtocolError(f"compressed registration: negative length of {what}")
        return number


def _read_compressed(data: bytes, with_queue_maps: bool) -> _Body:
    reader = _Reader(_inflate(data))
    version = fastjson.loads_as(reader.item("data version"), DataVersion, "data version")
    topics = {}
    for _ in range(reader.count("topics")):
        config = _topic_line(reader.item("a topic"))
        topics[config.topicName or ""] = config
    filter_servers = fastjson.loads(reader.item("filter servers"))
    if not isinstance(filter_servers, list):
        filter_servers = []
    queue_maps = {}
    if with_queue_maps:
        for _ in range(reader.count("queue maps")):
            queue_map = fastjson.loads_object(reader.item("a queue map"))
            queue_maps[str(queue_map.get("topic"))] = queue_map
    wrapper = _Wrapper(version, topics, queue_maps)
    return _Body(wrapper, [server for server in filter_servers if isinstance(server, str)])


def _inflate(data: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, BODY_BYTES_MAX)
    except zlib.error as error:
        raise ProtocolError(f"compressed registration: {error}") from None
    if not inflater.eof:
        raise ProtocolError(
            f"compressed registration: cut off or more than {BODY_BYTES_MAX} bytes long"
        )
    return plain


def _topic_line(line: bytes) -> TopicConfig:
    """ "name read write perm filterType[ attributes]", separated by single blanks."""
    parts = line.decode("utf-8", "replace").split(" ")
    if len(parts) < 5 or not parts[0]:
        raise ProtocolError(f"compressed registration: not a topic: {line[:80]!r}")
    numbers = {"readQueueNums": parts[1], "writeQueueNums": parts[2], "perm": parts[3]}
    try:
        return msgspec.convert({"topicName": parts[0], **numbers}, TopicConfig, strict=False)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"topic {parts[0][:80]!r}: {error}") from None
