"""Goal: what a broker says when it registers is read, in all its spellings, and checked.

Method: bodies built by hand as Java builds them, then cut, bent and bloated. Not shown here: that a
real broker says no more; the compat tests register one.
"""

import json
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.name_server import DATA_VERSION, compressed_body, registration_body

from rmq.errors import ProtocolError
from rmq.format.remoting import Command
from rmq.namesrv import registration
from rmq.namesrv.registration import DataVersion, Registration, read

HEADER = {
    "brokerName": "b",
    "brokerAddr": "1.2.3.4:10911",
    "clusterName": "C",
    "haServerAddr": "1.2.3.4:10912",
    "brokerId": "0",
}
VERSION = DataVersion(**DATA_VERSION)
LINES = ["TopicA 4 5 6 SINGLE_TAG {}", "TBW102 8 8 7 SINGLE_TAG"]


def said(body: bytes, version: int = 479, **fields: str) -> Registration:
    return read(Command(code=103, version=version, fields={**HEADER, **fields}, body=body))


def test_a_json_body_is_read() -> None:
    body = registration_body(
        {"TopicA": {"perm": 7, "readQueueNums": 2, "writeQueueNums": 3, "topicSysFlag": 1}},
        filter_servers=["f:1"],
        topicQueueMappingInfoMap={
            "TopicA": {"bname": "b", "topic": "TopicA", "currIdMap": {"0": 0}}
        },
    )
    found = said(body, heartbeatTimeoutMillis="3000", enableActingMaster="true", __ZONE_NAME="z")
    topic = found.topics["TopicA"]
    assert (topic.perm, topic.readQueueNums, topic.writeQueueNums) == (7, 2, 3)
    assert topic.topicSysFlag == 1
    assert found.data_version == VERSION
    assert found.filter_servers == ["f:1"]
    assert found.queue_maps["TopicA"]["bname"] == "b"
    assert (found.cluster, found.broker_name, found.broker_id) == ("C", "b", 0)
    assert (found.address, found.ha_address) == ("1.2.3.4:10911", "1.2.3.4:10912")
    assert (found.heartbeat_timeout_ms, found.enable_acting_master, found.zone) == (3000, True, "z")


def test_absent_members_have_the_defaults_of_java() -> None:
    found = said(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{}}}}')
    topic = found.topics["T"]
    assert (topic.readQueueNums, topic.writeQueueNums, topic.perm) == (16, 16, 6)
    assert found.heartbeat_timeout_ms is None
    assert found.enable_acting_master is None
    assert found.filter_servers is None
    assert said(b"").topics == {}


def test_fastjson_spellings_are_read() -> None:
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"4"}},"x":{0:1}}}'
    assert said(body).topics["T"].perm == 4


@pytest.mark.parametrize("version", [399, 479])
def test_a_compressed_body_is_read(version: int) -> None:
    maps = ['{"topic":"TopicA","bname":"b"}'] if version >= 413 else None
    body = compressed_body(LINES, filter_servers='["f:1"]', queue_maps=maps)
    found = said(body, version, compressed="true")
    topic = found.topics["TopicA"]
    assert (topic.readQueueNums, topic.writeQueueNums, topic.perm) == (4, 5, 6)
    assert found.topics["TBW102"].perm == 7
    assert found.filter_servers == ["f:1"]
    assert found.data_version == VERSION
    assert list(found.queue_maps) == (["TopicA"] if maps else [])


def test_a_compressed_body_is_read_though_the_header_denies_it() -> None:
    body = compressed_body(LINES, queue_maps=[])
    assert list(said(body, 513, compressed="false").topics) == ["TopicA", "TBW102"]


def test_brokers_before_3_0_11_send_the_topic_table_alone() -> None:
    body = json.dumps({"topicConfigTable": {"T": {"perm": 2}}, "dataVersion": DATA_VERSION})
    found = said(body.encode(), version=36)
    assert found.topics["T"].perm == 2
    assert found.filter_servers is None


def test_a_checksum_is_compared_when_there_is_one() -> None:
    body = registration_body({"T": 4})
    crc = zlib.crc32(body) & 0x7FFFFFFF
    assert said(body, bodyCrc32=str(crc)).topics
    assert said(body, bodyCrc32="0").topics
    with pytest.raises(ProtocolError, match="crc32 not match"):
        said(body, bodyCrc32=str(crc ^ 1))
    with pytest.raises(ProtocolError, match="crc32 not match"):
        said(b"", bodyCrc32=str(crc))


@pytest.mark.parametrize("name", HEADER)
def test_a_missing_field_is_named(name: str) -> None:
    fields = {key: value for key, value in HEADER.items() if key != name}
    with pytest.raises(ProtocolError, match=name):
        read(Command(code=103, version=479, fields=fields))


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":-1}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"writeQueueNums":4294967296}}}}',
        b'{"filterServerList":[1,[]]}',
    ],
)
def test_a_body_that_cannot_be_right_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        said(body)


@pytest.mark.parametrize(
    "body",
    [
        b"not zlib",
        compressed_body(LINES, queue_maps=[])[:-6],
        compressed_body(["TopicA 4 4"], queue_maps=[]),
        compressed_body(["TopicA 4 -4 6 SINGLE_TAG {}"], queue_maps=[]),
        compressed_body(["TopicA 4 x 6 SINGLE_TAG {}"], queue_maps=[]),
        zlib.compress(b"\x7f\xff\xff\xff"),
        zlib.compress(b"\xff\xff\xff\xff"),
        zlib.compress(b"\0\0\0\2{}\x7f\xff\xff\xff"),
        zlib.compress(b""),
    ],
)
def test_a_compressed_body_that_cannot_be_right_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        said(body, compressed="true")


def test_a_compressed_body_may_not_swell_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "BODY_BYTES_MAX", 1000)
    with pytest.raises(ProtocolError, match="1000"):
        said(zlib.compress(b"\0" * 1_000_000), compressed="true")


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5))
def test_damage_is_refused_or_read(damage: list[tuple[int, int]]) -> None:
    plain = zlib.decompress(compressed_body(LINES, queue_maps=['{"topic":"T"}']))
    for body, fields in ((registration_body({"T": 4}), {}), (plain, {"compressed": "true"})):
        damaged = bytearray(body)
        for at, byte in damage:
            damaged[at % len(damaged)] = byte
        with suppress(ProtocolError):
            said(zlib.compress(damaged) if fields else bytes(damaged), **fields)


@pytest.mark.parametrize("depth", [70, 300, 900, 100_000])
@pytest.mark.parametrize(
    "member", ['"topicQueueMappingInfoMap":{"T":%s}', '"nobody":%s', "nobody:%s"]
)
def test_what_a_name_server_keeps_is_not_deep(member: str, depth: int) -> None:
    """A deep value must be refused at registration: the name server would write it into its answers
    to others, and fail there."""
    deep = member % ('{"a":' * depth + "1" + "}" * depth)
    with pytest.raises(ProtocolError, match="nested deeper than"):
        said(b'{"topicConfigSerializeWrapper":{%s}}' % deep.encode())
