"""Messages: the oracle reads the same in what is sent, and records become messages field by
field."""

from __future__ import annotations

import zlib
from datetime import datetime, timezone
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.volume import volume

from cext.client.message import Message, decode_messages, encoded_properties
from cext.client.reply import Reply, reply_of
from rmq.errors import MessageError, ProtocolError
from rmq.format import packed_body
from rmq.format.message import Host, StoredMessage, decode_properties, encode_message
from rmq.format.packed_body import UNPACKED_BYTES_MAX
from rmq.format.remoting import Command, encode

TEXT = st.text(st.characters(blacklist_characters="\x01\x02", blacklist_categories=("Cs",)),
               min_size=1, max_size=20)  # fmt: skip


def reply_with(body: bytes) -> Reply:
    return reply_of(encode(Command(code=0, flag=1, body=body)))


def test_a_message_carries_what_it_was_given() -> None:
    message = Message("orders", "body", "paid", ["a", "b"], properties={"x": 1}, delay_level=3,
                      sharding_key="s", wait_store_msg_ok=False)  # fmt: skip
    assert message.body == b"body"
    assert message.message_id is None
    found = decode_properties(encoded_properties(message))
    assert found.pop("UNIQ_KEY") == message.message_id
    assert found == {"TAGS": "paid", "KEYS": "a b", "x": "1", "DELAY": "3", "__SHARDINGKEY": "s",
                     "WAIT": "false"}  # fmt: skip
    assert (message.delay_level, message.sharding_key) == (3, "s")


def test_sending_again_keeps_the_unique_key_and_each_message_has_its_own() -> None:
    message = Message("t", b"")
    encoded_properties(message)
    first = message.message_id
    encoded_properties(message)
    assert message.message_id == first
    keys = set()
    for _ in range(2000):
        other = Message("t", b"")
        encoded_properties(other)
        keys.add(other.message_id)
    assert len(keys) == 2000


def test_times_of_delivery_are_milliseconds() -> None:
    when = datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
    assert Message("t", b"", deliver_at=when).properties == {"TIMER_DELIVER_MS": "1893553445678"}
    assert Message("t", b"", delay_seconds=1.5).properties == {"TIMER_DELAY_MS": "1500"}
    for number in (1_893_553_445_678.4, np.int64(1_893_553_445_678)):
        found = Message("t", b"", deliver_at=number)  # type: ignore[arg-type]
        assert found.properties == {"TIMER_DELIVER_MS": "1893553445678"}
    for seconds in (Decimal("1.5"), np.float32(1.5)):
        found = Message("t", b"", delay_seconds=seconds)  # type: ignore[arg-type]
        assert found.properties == {"TIMER_DELAY_MS": "1500"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Message("t", b"", tags="a\x01b"),
        lambda: Message("t", b"", keys="a\x02b"),
        lambda: Message("t", b"", properties={"": "x"}),
        lambda: Message("t", b"", properties={"a\x01": "x"}),
        lambda: Message("t", 7),
        lambda: Message("t", b"", delay_level=-1),
        lambda: encoded_properties(Message("t", b"", properties={"x": "y" * 40_000})),
        lambda: encoded_properties(Message("t", b"", properties={str(i): "y" * 4_000
                                                                 for i in range(9)})),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused(make: object) -> None:
    with pytest.raises(MessageError):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"deliver_at": "tomorrow"}, "deliver_at='tomorrow': a datetime, or milliseconds"),
        ({"deliver_at": 1_893_553_445}, "deliver_at=1893553445: .* are these seconds"),
        ({"deliver_at": 1_893_553_445.678}, "deliver_at=1893553445.678: .* are these seconds"),
        ({"deliver_at": float("nan")}, "a datetime, or milliseconds"),
        ({"deliver_at": 10**400}, "a datetime, or milliseconds"),
        ({"deliver_at": True}, "a datetime, or milliseconds"),
        ({"deliver_at": -1}, "deliver_at=-1: milliseconds since 1970"),
        ({"deliver_at": 1 << 60}, "milliseconds since 1970"),
        ({"delay_seconds": "5"}, "delay_seconds='5': a number of seconds"),
        ({"delay_seconds": -1}, "a number of seconds, 0 or more"),
        ({"delay_seconds": float("nan")}, "a number of seconds, 0 or more"),
        ({"delay_seconds": float("inf")}, "a number of seconds, 0 or more"),
        ({"properties": {"due": None}}, "property 'due' is None: leave it out"),
        ({"body": None}, "a body is bytes or text, not NoneType"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(given: dict[str, object], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        Message(**{"topic": "t", "body": b"", **given})  # type: ignore[arg-type]


@given(st.dictionaries(TEXT, TEXT, max_size=8))
def test_properties_are_read_back_by_the_oracle(properties: dict[str, str]) -> None:
    properties.pop("UNIQ_KEY", None)
    found = decode_properties(encoded_properties(Message("t", b"", properties=properties)))
    del found["UNIQ_KEY"]
    assert found == properties


RECORD = st.builds(
    StoredMessage,
    topic=st.sampled_from(["t", "other", "x" * 130, "\u4e2d"]),
    body=st.binary(max_size=50),
    properties_bytes=st.sampled_from([b"", b"TAGS\x01a\x02", b"TAGS\x01a\x02UNIQ_KEY\x01k"]),
    queue_id=st.integers(0, 9),
    flag=st.integers(-(2**31), 2**31 - 1),
    queue_offset=st.integers(0, 2**62),
    physical_offset=st.integers(0, 2**62),
    born_timestamp_ms=st.integers(0, 2**50),
    store_timestamp_ms=st.integers(0, 2**50),
    born_host=st.sampled_from([Host("10.1.2.3", 99), Host("::1", 7)]),
    store_host=st.sampled_from([Host("10.1.2.4", 10911), Host("fe80::1", 8)]),
    reconsume_times=st.integers(0, 20),
    prepared_offset=st.integers(0, 2**62),
)


@given(st.lists(RECORD, max_size=5))
def test_records_become_messages_field_by_field(records: list[StoredMessage]) -> None:
    found = decode_messages(reply_with(b"".join(map(encode_message, records))), "b", True)
    assert len(found) == len(records)
    for message, record in zip(found, records, strict=True):
        assert message.topic == record.topic
        assert (message.body, message.stored_properties) == (record.body, record.properties_bytes)
        assert (message.queue_id, message.flag, message.queue_offset) == (
            record.queue_id, record.flag, record.queue_offset)  # fmt: skip
        assert message.commit_log_offset == record.physical_offset
        assert message.born_timestamp == record.born_timestamp_ms
        assert message.store_timestamp == record.store_timestamp_ms
        assert (message.born_host, message.store_host) == (
            str(record.born_host), str(record.store_host))  # fmt: skip
        assert message.reconsume_times == record.reconsume_times
        assert message.prepared_transaction_offset == record.prepared_offset
        assert message.offset_message_id == record.message_id
        assert message.properties == record.properties
        assert message.tags == record.properties.get("TAGS")
        assert message.message_id == record.properties.get("UNIQ_KEY", record.message_id)
        assert message.queue == (record.topic, "b", record.queue_id)


@settings(max_examples=volume(100, 300))
@given(RECORD, st.data())
def test_damaged_records_are_refused_and_never_read_beyond(record, data) -> None:  # type: ignore
    whole = bytearray(encode_message(record))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    for body in (bytes(whole), bytes(whole[: data.draw(st.integers(1, len(whole)))])):
        try:
            for message in decode_messages(reply_with(body), "b"):
                assert len(message.properties) < 100
                assert message.offset_message_id and len(message.stored_body) < 100
        except ProtocolError:
            pass


def test_packed_bodies_are_unpacked_and_damaged_ones_refused() -> None:
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    plain = b"same " * 2000
    packed = {
        0x001: zlib.compress(plain), 0x301: zlib.compress(plain),
        0x101: lz4.compress(plain), 0x201: zstandard.ZstdCompressor().compress(plain),
    }  # fmt: skip
    for sys_flag, body in packed.items():
        record = encode_message(StoredMessage(topic="t", body=body, sys_flag=sys_flag))
        assert decode_messages(reply_with(record))[0].body == plain
        record = encode_message(StoredMessage(topic="t", body=body[9:], sys_flag=sys_flag))
        with pytest.raises(ProtocolError):
            _ = decode_messages(reply_with(record))[0].body
        record = encode_message(StoredMessage(topic="t", body=body[:-5], sys_flag=sys_flag))
        with pytest.raises(ProtocolError):
            _ = decode_messages(reply_with(record))[0].body
    record = encode_message(StoredMessage(topic="t", body=b"x", sys_flag=0x701))
    with pytest.raises(ProtocolError, match="unknown way"):
        _ = decode_messages(reply_with(record))[0].body


def test_a_body_of_several_frames_is_read_whole() -> None:
    """A body of several compressed frames must be read whole, as Java's clients read it. It must be
    refused if its last frame is cut off, or something follows that is no frame."""
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    told = zstandard.ZstdCompressor()
    untold = zstandard.ZstdCompressor(write_content_size=False)
    for sys_flag, pack in ((0x101, lz4.compress), (0x201, told.compress), (0x201, untold.compress)):
        packed = pack(b"") + pack(b"a" * 1000) + pack(b"b" * 1000)
        record = encode_message(StoredMessage(topic="t", body=packed, sys_flag=sys_flag))
        assert decode_messages(reply_with(record))[0].body == b"a" * 1000 + b"b" * 1000
        for bad in (packed[:-3], packed + b"more"):
            record = encode_message(StoredMessage(topic="t", body=bad, sys_flag=sys_flag))
            with pytest.raises(ProtocolError, match="does not unpack: damaged"):
                _ = decode_messages(reply_with(record))[0].body


def test_memory_that_is_missing_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a consumer would drop a message that another attempt can read."""

    def full(_body: bytes) -> bytes:
        raise MemoryError

    monkeypatch.setattr(packed_body, "inflated", full)
    record = encode_message(StoredMessage(topic="t", body=zlib.compress(b"a"), sys_flag=1))
    with pytest.raises(MemoryError):
        _ = decode_messages(reply_with(record))[0].body


def test_bodies_that_unpack_to_more_than_allowed_are_refused() -> None:
    """A body that unpacks to more than the limit must be refused: a few kilobytes may stand for
    gigabytes, and anybody can send them."""
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    zeros = bytes(UNPACKED_BYTES_MAX + 1)
    untold = zstandard.ZstdCompressor().compressobj()  # a frame that does not say its unpacked size
    packed = {
        0x001: [zlib.compress(zeros)], 0x101: [lz4.compress(zeros)],
        0x201: [zstandard.ZstdCompressor().compress(zeros),
                untold.compress(zeros) + untold.flush()],
    }  # fmt: skip
    for sys_flag, bodies in packed.items():
        for body in bodies:
            record = encode_message(StoredMessage(topic="t", body=body, sys_flag=sys_flag))
            with pytest.raises(ProtocolError, match="does not unpack"):
                _ = decode_messages(reply_with(record))[0].body
