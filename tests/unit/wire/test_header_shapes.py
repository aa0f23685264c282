"""Goal: a header read by the shape of an earlier one is read exactly as parse_header reads it.

Method: headers that differ from an earlier one in a few bytes (of values, of marks, of structure)
go through one set of shapes and, alone, through parse_header; the answers must be equal. In some
tests the fast way must be taken, which they assert.
"""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.volume import volume
from support.wire_frames import JAVA_PULL, JAVA_SEND_V2, JSON, SEND_V2_FIELDS

from cext.testing.frame_probe import header_parsed, headers_in_turn, same_shape_by_all_ways

# Letters, digits, and every character with a meaning in JSON.
BYTES = b'"\\{}[]:,+-.e019 unltx\x01\xc3\xa9'


def send_header(opaque: int, topic: str = "orders", properties: str = "UNIQ_KEY\x01A\x02") -> bytes:
    fields = {**SEND_V2_FIELDS, "b": topic, "i": properties}
    header = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque}
    return json.dumps(header, separators=(",", ":")).encode()


def assert_read_alike(headers: list[bytes]) -> list[bool]:
    answers = headers_in_turn(headers)
    for data, (answer, _) in zip(headers, answers, strict=True):
        assert answer == header_parsed(data, JSON), data
    return [by_shape for _, by_shape in answers]


def test_a_header_like_the_last_is_read_by_its_shape() -> None:
    headers = [
        send_header(10, "orders", "UNIQ_KEY\x01A\x02TAGS\x01x\x02"),
        send_header(11, "orders", "UNIQ_KEY\x01B\x02TAGS\x01y\x02"),
        send_header(99, "trades", "UNIQ_KEY\x01C\x02TAGS\x01z\x02"),
        send_header(-1, "trades", "UNIQ_KEY\x02C\x01TAGS\x01z\x02"),
    ]
    assert assert_read_alike(headers) == [False, True, True, True]


def test_captured_headers_repeat_by_shape() -> None:
    assert assert_read_alike([JAVA_SEND_V2, JAVA_PULL, JAVA_SEND_V2, JAVA_PULL]) == [
        False, False, True, True,
    ]  # fmt: skip


def test_another_length_is_another_shape() -> None:
    headers = [send_header(9), send_header(10), send_header(8), send_header(11)]
    assert assert_read_alike(headers) == [False, False, True, True]


def test_what_the_structure_says_must_be_the_same() -> None:
    plain = send_header(10)
    others = [
        plain.replace(b'"code":310', b'"code":311'),
        plain.replace(b'"flag":0', b'"flag":2'),
        plain.replace(b'"a":', b'"z":'),
        plain.replace(b'"JAVA"', b'"RUBY"'),
        plain.replace(b"}", b"]", 1),
    ]
    for other in others:
        assert len(other) == len(plain) and other != plain
        assert assert_read_alike([plain, other]) == [False, False]


def test_quotes_and_escapes_inside_values_must_stay_where_they_were() -> None:
    plain = send_header(10, "orders", "k\x01v")
    for other in (
        plain.replace(b"orders", b'or"ers'),
        plain.replace(b"orders", b"or\\ers"),
        plain.replace(b"orders", b'or\\"rs'),
        plain.replace(b"\\u0001", b'\\"0001'),
    ):
        assert len(other) == len(plain) and other != plain
        assert assert_read_alike([plain, other]) == [False, False]


def test_an_opaque_that_is_no_number_is_parsed_in_full() -> None:
    plain = send_header(1234)
    for digits in (b"12,4", b"+123", b"12 4", b"1.24", b"null", b"1e10"):
        assert assert_read_alike([plain, plain.replace(b"1234", digits)]) == [False, False]
    assert assert_read_alike([plain, plain.replace(b"1234", b"-123")]) == [False, True]


def test_unquoted_values_must_be_the_same() -> None:
    one = b'{"code":10,"extFields":{"a":15,"b":{"c":"1"}},"opaque":1}'
    assert assert_read_alike([one, one.replace(b"15", b"16")]) == [False, False]
    assert assert_read_alike([one, one.replace(b'"1"', b'"2"')]) == [False, False]
    assert assert_read_alike([one, one.replace(b'opaque":1', b'opaque":2')]) == [False, True]


def test_a_shape_that_is_often_right_is_not_replaced_by_a_stranger() -> None:
    plain = send_header(10)
    stranger = plain.replace(b'"code":310', b'"code":999')
    assert assert_read_alike([plain, plain, plain, stranger, plain]) == [
        False, True, True, False, True,
    ]  # fmt: skip
    # A shape that is of no use any more is replaced in the end.
    assert assert_read_alike([plain, plain, *[stranger] * 4])[-1]


def test_long_and_broken_headers_are_left_to_the_parser() -> None:
    long = send_header(10, "orders", "k\x01" + "v" * 2000)
    assert assert_read_alike([long, long]) == [False, False]
    assert assert_read_alike([b"{", b"{", b"", b"{}", b"{}"]) == [False, False, False, False, True]


@settings(max_examples=volume(100, 300))
@given(st.integers(0, 2**32), st.sampled_from([JAVA_SEND_V2, JAVA_PULL, send_header(77)]))
def test_headers_with_some_bytes_changed_are_read_alike(seed: int, header: bytes) -> None:
    chance = random.Random(seed)
    headers = [header]
    for _ in range(20):
        data = bytearray(chance.choice(headers))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice(BYTES)
        headers += [bytes(data), header]
    by_shape = assert_read_alike(headers)
    assert any(by_shape)


def test_each_byte_of_a_header_of_any_length_is_looked_at_by_every_way() -> None:
    for length in (*range(1, 100), 450):
        fixed = bytes(0xFF if at % 3 else 0 for at in range(length))
        like = bytes(65 + at % 26 for at in range(length))
        free = bytes(byte if fixed[at] else 97 for at, byte in enumerate(like))
        assert all(same_shape_by_all_ways(free, like, fixed)), length
        for at in range(length):
            for wrong in (b'"', b"\\", b"~"):
                data = free[:at] + wrong + free[at + 1 :]
                alike = wrong == b"~" and not fixed[at]
                assert set(same_shape_by_all_ways(data, like, fixed)) == {alike}, (length, at)
