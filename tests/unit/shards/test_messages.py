"""Messages of the bus come back as they were sent; everything else is refused, not guessed.

Not shown here: that two releases understand each other; the version byte keeps them apart.
"""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shards.messages import (
    PROTOCOL,
    TOPIC,
    Beat,
    BusError,
    Done,
    Failed,
    Item,
    News,
    Stamp,
    StatsReply,
    TicketSecret,
    decode,
    encode,
    expect,
)


def test_message_survives_the_bus() -> None:
    item = Item(TOPIC, "orders", Stamp(17, 1), b'{"perm":6}')
    gone = Item(TOPIC, "old", Stamp(18, 0), None)
    for message in (
        Beat(3),
        News(5, 9, [item, gone]),
        StatsReply(1, "b-1", "127.0.0.1:1", 2, 3, {"messages_in": 2**62}, {"cpu_s": 0.5}),
    ):
        assert decode(encode(message)) == message


def test_a_secret_is_in_no_line_of_a_log() -> None:
    message = TicketSecret(b"secret of tickets")
    assert decode(encode(message)) == message
    assert "secret of" not in f"{message} {message!r}"


def test_first_byte_is_the_version_and_another_one_is_refused() -> None:
    frame = encode(Beat(3))
    assert frame[0] == PROTOCOL
    with pytest.raises(BusError, match="version 02"):
        decode(b"\x02" + frame[1:])
    with pytest.raises(BusError, match="version missing"):
        decode(b"")


def test_unknown_tag_and_wrong_types_are_refused() -> None:
    version = bytes([PROTOCOL])
    for body in (["Nonsense", 1], ["Beat", "x"], ["Beat"], {"index": 1}, 7):
        with pytest.raises(BusError, match="not a message"):
            decode(version + msgspec.msgpack.encode(body))


def test_fields_added_later_at_the_end_do_not_break_an_older_reader() -> None:
    later = bytes([PROTOCOL]) + msgspec.msgpack.encode(["Beat", 3, "something new"])
    assert decode(later) == Beat(3)


@given(st.binary(max_size=200))
@example(b"\x91\xa5\x00\x00\x00\x00\x80")  # a tag that is not UTF-8
def test_garbage_is_refused_as_such(garbage: bytes) -> None:
    try:
        decode(bytes([PROTOCOL]) + garbage)
    except BusError:
        return
    # Whatever is decoded must be a message that stays the same when it is sent on.
    frame = encode(decode(bytes([PROTOCOL]) + garbage))
    assert encode(decode(frame)) == frame


def test_stamps_are_ordered_by_counter_and_then_by_shard() -> None:
    assert Stamp(2, 0) > Stamp(1, 9)
    assert Stamp(2, 1) > Stamp(2, 0)
    assert Stamp() < Stamp(0, 0)


def test_a_failed_request_raises_its_reason() -> None:
    assert expect(Done("x"), Done).text == "x"
    with pytest.raises(BusError, match="no such shard"):
        expect(Failed("no such shard"), Done)
    with pytest.raises(BusError, match="Beat came where Done"):
        expect(Beat(1), Done)
