"""Registration body: the table of topics as request 103 carries it, as JSON or compressed.

    body, compressed = RegistrationBody(version, mapping_version, topics, mappings).encoded(False)

JSON is {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{..},
"topicConfigTable":{..},"topicQueueMappingInfoMap":{..}}}. The compressed form, which the header
announces, is a zlib stream of

    i32 length + data version as JSON
    i32 number of topics, each i32 length + "name read write perm filterType"
    i32 length + list of filter servers as JSON
    i32 number of queue maps, each i32 length + JSON

It is far smaller, and is sent when compressedRegister is on or the JSON is larger than
JSON_BYTES_MAX: a name server closes the connection at a frame of more than 16 MiB, and a broker
that cannot register is in no route. As in RocketMQ, the compressed form has no place for
topicSysFlag and order; JSON has them, so it is sent as long as it fits.

Brokers of 5.x always write a topic's attributes as a sixth part of its line. No name server looks
at them, and those of 4.x expect five parts: because of one topic with six they would refuse the
whole table. So attributes are left out here.
"""

import zlib
from collections.abc import Mapping

import msgspec

from rmq.broker.tables.queue_mapping import QueueMapping
from rmq.broker.tables.topic_config import TopicConfig
from rmq.limits import FRAME_BYTES_MAX, REQUEST_HEADER_BYTES_MAX

JSON_BYTES_MAX = FRAME_BYTES_MAX - REQUEST_HEADER_BYTES_MAX  # leaves room for the largest header
LEVEL = 1  # of zlib: names repeat, and the loop waits for it


class RegistrationBody(msgspec.Struct, frozen=True):
    """The whole table and its versions, as of one moment."""

    version: Mapping[str, int]
    mapping_version: Mapping[str, int]
    topics: Mapping[str, TopicConfig]  # their permissions are masked
    mappings: Mapping[str, QueueMapping]  # of those that are static

    def encoded(self, compressed: bool) -> tuple[bytes, bool]:
        """(body, whether it is compressed): compressed when asked for, or if JSON is too large."""
        if not compressed:
            body = self.json()
            if len(body) <= JSON_BYTES_MAX:
                return body, False
        return self.compressed(), True

    def json(self) -> bytes:
        wrapper = {
            "dataVersion": self.version,
            "mappingDataVersion": self.mapping_version,
            "topicConfigTable": {name: topic.members() for name, topic in self.topics.items()},
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {
                name: mapping.info_members() for name, mapping in self.mappings.items()
            },
        }
        return msgspec.json.encode({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})

    def compressed(self) -> bytes:
        infos = [msgspec.json.encode(each.info_members()) for each in self.mappings.values()]
        parts = (
            _counted(msgspec.json.encode(self.version)),
            _list([_line(topic) for topic in self.topics.values()]),
            _counted(b"[]"),
            _list(infos),
        )
        return zlib.compress(b"".join(parts), LEVEL)


def _line(topic: TopicConfig) -> bytes:
    numbers = f"{topic.read_queues} {topic.write_queues} {topic.perm}"
    return f"{topic.name} {numbers} {topic.filter_type}".encode()


def _list(items: list[bytes]) -> bytes:
    return _number(len(items)) + b"".join(map(_counted, items))


def _counted(data: bytes) -> bytes:
    return _number(len(data)) + data


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")
