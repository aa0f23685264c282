"""Goal: a header is read the same in any order and spelling, and other bytes are refused.

Agreement with Python's json over generated headers is shown in tests/contract/test_wire_twins.py.
"""

import pytest
from support.wire_frames import (
    BINARY,
    GO_SEND,
    JAVA_SEND_V2,
    JAVA_SEND_V2_PROPERTIES,
    JSON,
    MALFORMED,
    OK,
    TOO_LARGE,
    binary_header,
    json_header,
)

from cext.testing.frame_probe import header_field, header_parsed


def test_java_send_header_is_read() -> None:
    header = header_parsed(JAVA_SEND_V2, JSON)
    assert (header["code"], header["flag"], header["opaque"]) == (310, 0, 12)
    assert (header["version"], header["language"], header["remark"]) == (477, 0, None)
    fields = dict(header["fields"])
    assert fields[b"a"] == b"orders_producer"
    assert fields[b"i"] == JAVA_SEND_V2_PROPERTIES
    assert header["letters"] == {letter: i for i, letter in enumerate("abcdefghijkmn")}


def test_go_send_header_is_read() -> None:
    header = header_parsed(GO_SEND, JSON)
    assert (header["code"], header["version"], header["language"]) == (10, 317, 9)
    assert header["remark"] == b""
    assert dict(header["fields"])[b"producerGroup"] == b"pg"


def test_missing_members_are_zero_and_absent() -> None:
    header = header_parsed(b" { } ", JSON)
    assert header == {
        "status": OK, "code": 0, "flag": 0, "opaque": 0, "version": 0, "language": 7,
        "remark": None, "fields": [], "letters": {},
    }  # fmt: skip


def test_numbers_may_be_strings_and_members_null() -> None:
    header = header_parsed(
        b'{"code":"-7","opaque":"2147483647","flag":null,"extFields":null}', JSON
    )
    assert (header["code"], header["opaque"], header["flag"]) == (-7, 2147483647, 0)
    assert header["fields"] == []


def test_field_values_may_be_numbers_words_and_nested() -> None:
    data = b'{"extFields":{"a":5,"b":true,"c":null,"d":[1,"]}"],"e":{"x":"\\"}"},"f":-1.5e3}}'
    assert header_parsed(data, JSON)["fields"] == [
        (b"a", b"5"), (b"b", b"true"), (b"c", None), (b"d", b'[1,"]}"]'),
        (b"e", b'{"x":"\\"}"}'), (b"f", b"-1.5e3"),
    ]  # fmt: skip


def test_unknown_members_are_passed_over() -> None:
    data = b'{"x":{"code":1,"y":[{},[],"\\\\"]},"z":"\\"","code":9,"extFields":{"k":"v"},"w":1e9}'
    header = header_parsed(data, JSON)
    assert (header["code"], header["fields"]) == (9, [(b"k", b"v")])


def test_the_later_of_two_equal_members_counts() -> None:
    doubled = b'{"code":1,"extFields":{"a":"1","z":"2"},"extFields":{"b":"3"},"code":2}'
    header = header_parsed(doubled, JSON)
    assert (header["code"], header["fields"], header["letters"]) == (2, [(b"b", b"3")], {"b": 0})
    assert header_parsed(b'{"extFields":{"a":"1","a":"2"}}', JSON)["letters"] == {"a": 1}
    emptied = header_parsed(b'{"code":1,"extFields":{"a":"1"},"extFields":null}', JSON)
    assert (emptied["code"], emptied["fields"], emptied["letters"]) == (1, [], {})


def test_keys_may_be_spelled_with_escapes() -> None:
    header = header_parsed(rb'{"\u0063ode":5,"extFields":{"\u0061":"x","\u0061b":"y"}}', JSON)
    assert (header["code"], header["letters"]) == (5, {"a": 0})
    assert header["fields"] == [(b"a", b"x"), (b"ab", b"y")]


def test_languages_by_name_and_number() -> None:
    for spelled, meant in (
        (b'"JAVA"', 0), (b'"GO"', 9), (b'"PYTHON"', 3), (b'"NODE_JS"', 13), (b'"PERL"', 7),
        (b"9", 9), (b"99", 7), (b'""', 7), (b"null", 7),
    ):  # fmt: skip
        assert header_parsed(b'{"language":' + spelled + b"}", JSON)["language"] == meant, spelled


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"{", b"}", b"[]", b"null", b'{"code":}', b'{"code":1', b'{"code":1,}',
        b'{"code":1}x', b'{"code":1}}', b'{"code" 1}', b"{code:1}", b'{"code":1 "flag":2}',
        b'{"code":2147483648}', b'{"opaque":-2147483649}', b'{"code":1.5}', b'{"code":"x"}',
        b'{"code":true}', b'{"code":{}}', b'{"extFields":[]}', b'{"extFields":"x"}',
        b'{"extFields":{"a":"1"}', b'{"extFields":{"a"}}', b'{"extFields":{"a":"1",}}',
        b'{"extFields":{"a":"1"],"b":2}', b'{"x":tru}', b'{"x":nul}', b'{"x":01x}', b'{"x":-}',
        b'{"x":1.}', b'{"x":1e}', b'{"x":+1}', b'{"x":[1,]}', b'{"x":[1 2]}', b'{"x":{"y":1,}}',
        b'{"x":{"y"}}', b'{"x":{1:2}}', b'{"x":"abc', b'{"x":"abc\\"}', b'{"x":"abc\\', b'{"x',
        b'{"x\\":1}', b"{\\}", b'{"x":\\"y"}', b'{"x"\\:1}', b'{"extFields":{}',
    ],
)  # fmt: skip
def test_broken_json_is_malformed(data: bytes) -> None:
    assert header_parsed(data, JSON)["status"] == MALFORMED


def test_every_cut_of_a_header_is_malformed() -> None:
    for whole in (JAVA_SEND_V2, GO_SEND):
        for cut in range(len(whole)):
            assert header_parsed(whole[:cut], JSON)["status"] == MALFORMED, cut


def test_nesting_is_bounded() -> None:
    assert header_parsed(b'{"x":' + b"[" * 63 + b"]" * 63 + b"}", JSON)["status"] == OK
    assert header_parsed(b'{"x":' + b"[" * 64 + b"]" * 64 + b"}", JSON)["status"] == MALFORMED
    assert header_parsed(b'{"x":' + b'{"a":' * 100000, JSON)["status"] == MALFORMED


def test_more_fields_than_the_struct_holds_are_left_to_others() -> None:
    fields = {f"key{i}": str(i) for i in range(64)}
    for header, serialize_type in ((json_header, JSON), (binary_header, BINARY)):
        assert len(header_parsed(header(10, fields), serialize_type)["fields"]) == 64
        more = fields | {"one": "more"}
        assert header_parsed(header(10, more), serialize_type)["status"] == TOO_LARGE


def test_strings_of_every_length_around_the_block_size_are_found() -> None:
    for length in range(200):
        value = "x" * length
        header = header_parsed(json_header(10, {"key": value, "b": "\\" * (length % 7)}), JSON)
        assert header["fields"] == [(b"key", value.encode()), (b"b", b"\\" * (length % 7))]


def test_binary_header_is_read() -> None:
    data = binary_header(310, {"a": "pg", "topic": "中", "b": ""}, opaque=-5, flag=2, remark="hi")
    header = header_parsed(data, BINARY)
    assert header == {
        "status": OK, "code": 310, "flag": 2, "opaque": -5, "version": 477, "language": 0,
        "remark": b"hi", "letters": {"a": 0, "b": 2},
        "fields": [(b"a", b"pg"), (b"topic", "中".encode()), (b"b", None)],
    }  # fmt: skip


def test_every_cut_of_a_binary_header_is_malformed() -> None:
    data = binary_header(310, {"a": "pg", "topic": "T"}, remark="hi")
    for cut in range(len(data)):
        assert header_parsed(data[:cut], BINARY)["status"] == MALFORMED, cut


def test_binary_lengths_that_point_outside_are_malformed() -> None:
    good = binary_header(310, {"a": "pg"}, remark="hi")
    for at, width in ((13, 4), (19, 4), (23, 2), (26, 4)):
        for value in (-1, 2**15 - 1, -(2**15), 100):
            data = good[:at] + value.to_bytes(width, "big", signed=True) + good[at + width :]
            assert header_parsed(data, BINARY)["status"] == MALFORMED, (at, value)


def test_truncated_pop_codes_stay_apart_from_the_hot_codes() -> None:
    pop = [200050 + i for i in range(7)] + [200151]
    truncated = {code & 0xFFFF for code in pop}
    assert truncated == {3442, 3443, 3444, 3445, 3446, 3447, 3448, 3543}
    assert truncated.isdisjoint({10, 11, 310, 320, 324, 325, 361})
    assert header_parsed(binary_header(3442, {}), BINARY)["code"] == 3442


def test_unknown_serialisation_is_malformed() -> None:
    assert header_parsed(b"{}", 2)["status"] == MALFORMED


def test_a_field_is_found_by_name() -> None:
    data = rb'{"extFields":{"topic":"A","t\u006fpic":"B","x":null}}'
    assert header_field(data, JSON, b"topic") == b"B"
    assert header_field(data, JSON, b"x") is None
    assert header_field(data, JSON, b"top") is None
