"""Goal: what Java's fastjson writes is read, and what rmq writes can be read in Java and Go.

Method: texts in fastjson's own forms, round trips of generated values, generated garbage.
Cannot prove: that fastjson itself reads rmq's output; the compat tests show it for what is sent.
"""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.errors import ProtocolError
from rmq.format.fastjson import (
    DEPTH_MAX,
    MessageQueue,
    dumps,
    is_deep,
    loads,
    loads_as,
    loads_object,
)  # fmt: skip

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"10.0.0.1:10911",1:"10.0.0.2:10911"}', {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}),
        ("{name:'it\\'s',other_1:true,}", {"name": "it's", "other_1": True}),
        ('{\t"offsetTable":{\n\t"T@G":{0:5,1:-7}}}', {"offsetTable": {"T@G": {"0": 5, "1": -7}}}),
        (
            '{{"brokerName":"b","queueId":3,"topic":"t"}:{"maxOffset":9L}}',
            {MessageQueue("t", "b", 3): {"maxOffset": 9}},
        ),
        ('{{"b":2,"a":1}:0}', {(("a", 1), ("b", 2)): 0}),
        ('{"a":{"x":[1]},"b":{"$ref":"$.a"}}', {"a": {"x": [1]}, "b": {"x": [1]}}),
        ('{"a":[{"x":1}],"b":{"$ref":"$.a[0]"}}', {"a": [{"x": 1}], "b": {"x": 1}}),
        ('{"t":{"%RETRY%g":{"p":6}},"u":{"$ref":"$.t.%RETRY%g"}}', None),
        ('{a:"\\ud83d\\ude00 \\ud83d \\u4e2d"}', {"a": "\U0001f600 ? 中"}),
        ("{d:1.5e3,n:NaN}", {"d": 1500.0, "n": None}),
        ("[1,2,]", [1, 2]),
    ],
)
def test_fastjson_forms_are_read(text: str, value: Any) -> None:
    if value is None:
        value = {"t": {"%RETRY%g": {"p": 6}}, "u": {"p": 6}}
    assert loads(text) == value
    assert loads(text.encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[", '{"a"}', '{"a":}', '{"a":1 "b":2}', "[1 2]", '"abc', '"\\x"', '"\\u12g4"',
        "{}{}", "nul", "[" * 1000, "{a:" * 1000, "{" * 1000, "1e999", "'a", '{"a":tru}',
        '{"a":{"$ref":"$"}}', '{"a":{"$ref":"$.a"}}', '{"a":{"$ref":"$.b"}}', '{"a":{"$ref":"x"}}',
        '{"a":{"b":{"$ref":".."}}}', '{{"queueId":"x","brokerName":"b","topic":"t"}:1}',
        "{{[]:1}:1}", "{1234" + "5" * 5000 + "}",
    ],
)  # fmt: skip
def test_what_is_not_even_fastjson_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        loads(text)


def test_an_object_is_demanded_where_one_is_needed() -> None:
    with pytest.raises(ProtocolError, match="list"):
        loads_object(b"[]")


def test_maps_keyed_by_queues_are_written_as_java_reads_them() -> None:
    table = {MessageQueue("t", "b", 1): {"offset": 4}, MessageQueue("t", "b", 0): 3}
    text = (
        b'{{"brokerName":"b","queueId":0,"topic":"t"}:3,'
        b'{"brokerName":"b","queueId":1,"topic":"t"}:{"offset":4}}'
    )
    assert dumps(table) == text
    assert loads(text) == table
    assert dumps([MessageQueue("t", "b", 0)]) == b'[{"brokerName":"b","queueId":0,"topic":"t"}]'


def test_members_are_sorted_none_is_left_out_and_integer_keys_are_bare() -> None:
    value = {"b": None, "a": {10: "x", 9: "y"}, "c": [None, True, 1.0, float("nan")]}
    assert dumps(value) == b'{"a":{9:"y",10:"x"},"c":[null,true,1.0,null]}'
    assert dumps({0: "x"}, quote_integer_keys=True) == b'{"0":"x"}'


def test_half_a_surrogate_pair_is_written_as_a_question_mark() -> None:
    assert dumps({"a": "x\ud800"}) == b'{"a":"x?"}'


@given(PLAIN)
def test_plain_json_is_written_as_json_and_read_back(value: Any) -> None:
    written = dumps(value)
    assert json.loads(written) == without_none(value)
    with suppress(ProtocolError):  # a generated {"$ref": ..} may name nothing
        assert loads(written) == without_none(value) or b"$ref" in written


@given(PLAIN)
def test_plain_json_means_the_same_within_fastjsons_text(value: Any) -> None:
    alone = json.dumps(value)
    for escaped in (alone, json.dumps(value, ensure_ascii=False)):
        with suppress(ProtocolError):  # a generated {"$ref": ..} may name nothing
            found = loads(f'{{0:{escaped},{{"brokerName":"b","queueId":3,"topic":"t"}}:{escaped}}}')
            wanted = {"0": value, MessageQueue("t", "b", 3): value}
            assert found == wanted or '"$ref"' in escaped


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:{"a":"}","b":"{"}}', {"0": {"a": "}", "b": "{"}}),
        ('{0:{"a":1,}}', {"0": {"a": 1}}),
        ("{0:{\"a\":'}'}}", {"0": {"a": "}"}}),
        ('{0:{"a":1,b:2}}', {"0": {"a": 1, "b": 2}}),
        ('{0:{"a":"\\ud83d"}}', {"0": {"a": "?"}}),
        ('{0:{"a":9L}}', {"0": {"a": 9}}),
    ],
)
def test_objects_that_only_begin_as_json_are_read(text: str, value: Any) -> None:
    assert loads(text) == value


@given(st.lists(st.builds(MessageQueue, TEXT, TEXT, st.integers(0, 2**31)), max_size=4))
def test_queues_as_keys_come_back(queues: list[MessageQueue]) -> None:
    table = {queue: {"offset": at} for at, queue in enumerate(queues)}
    assert loads(dumps(table)) == table
    assert dumps([queue.members() for queue in queues]) == dumps(queues)


@given(st.text(st.sampled_from("{}[]:,\"'\\ut0123abn$ref.-e"), max_size=60))
def test_garbage_ends_in_protocol_error(text: str) -> None:
    with suppress(ProtocolError):
        loads(text)


@given(st.binary(max_size=60))
def test_garbage_bytes_end_in_protocol_error(data: bytes) -> None:
    with suppress(ProtocolError):
        loads(data)


# ---- extremes

OPENINGS = {  # how each is opened and closed, as many times as it is deep
    "arrays": ("[", "]"),
    "objects": ('{"a":', "}"),
    "bare names": ("{a:", "}"),
    "loose arrays": ("[,", ",]"),
    "in turn": ('{"[{":', "}"),
    "escapes": ('{"\\"[{":', "}"),
    "keys": ("{", ":1}"),
}


@pytest.mark.parametrize("form", OPENINGS)
def test_one_limit_for_how_deep_anything_is_nested(form: str) -> None:
    opens, closes = OPENINGS[form]
    inner = '"a":1' if form == "keys" else "1"
    inner = "{" + inner + "}" if form == "keys" else inner
    spare = 1 if form == "keys" else 0  # the innermost object is one more
    value = loads(opens * (DEPTH_MAX - spare) + inner + closes * (DEPTH_MAX - spare))
    assert form == "keys" or dumps(value)
    for depth in (DEPTH_MAX + 1 - spare, DEPTH_MAX + 2, 300, 900, 1100, 100_000):
        for data in (opens * depth + inner + closes * depth, opens * depth):
            with pytest.raises(ProtocolError) as caught:
                loads(data)
            if data.endswith(closes) or form != "keys":
                assert str(caught.value) == f"bad JSON: nested deeper than {DEPTH_MAX}"


def test_brackets_in_texts_and_side_by_side_are_not_depth() -> None:
    texts = ["[{" * 500, '\\"[' * 500, "\\\\", '"[[[']
    assert loads(json.dumps(texts)) == texts
    wide = [[[], {}] for _ in range(10_000)]
    assert loads(json.dumps(wide)) == wide
    assert loads("[" + ",".join(["{a:1}"] * 10_000) + "]") == [{"a": 1}] * 10_000


@given(PLAIN, st.integers(0, 2 * DEPTH_MAX))
def test_depth_is_counted_right(value: Any, more: int) -> None:
    for at in range(more):
        value = {"[" * (at % 3): value} if at % 2 else [value]

    def depth(node: Any) -> int:
        if not isinstance(node, (dict, list)):
            return 0
        inner = node.values() if isinstance(node, dict) else node
        return 1 + max(map(depth, inner), default=0)

    assert is_deep(json.dumps(value).encode()) == (depth(value) > DEPTH_MAX)


@pytest.mark.parametrize("text", ["%s", "[%s]", '{"a":%s}', '{"a":[%s]}', "{a:%s}", '{{"a":1}:%s}'])
@pytest.mark.parametrize(
    "number",
    ["1" * 65, "-" + "1" * 65, "1" * 4000, "1" * 100_000, "1e400", "-1e999999999", "Infinity"],
    ids=lambda number: number[:8],
)
def test_numbers_no_peer_can_mean_are_refused(text: str, number: str) -> None:
    with pytest.raises(ProtocolError):
        loads(text % number)
    with pytest.raises(ProtocolError):
        loads_as((text % number).encode(), dict[str, Any], "a table")


def test_digits_in_a_text_are_not_a_number() -> None:
    digits = "1" * 5000
    assert loads(f'{{"a":"{digits}"}}') == {"a": digits}
    assert loads_as(f'{{"a":"{digits}"}}'.encode(), dict[str, str], "a table") == {"a": digits}


def test_what_is_typed_is_read_within_the_same_limits() -> None:
    for depth, data in ((DEPTH_MAX, 62), (DEPTH_MAX + 1, 64), (900, 899), (100_000, 99_999)):
        text = b'{"a":' + b"[" * data + b"]" * data + b"}"
        if depth <= DEPTH_MAX:
            assert loads_as(text, dict[str, Any], "a table")
        else:
            with pytest.raises(ProtocolError, match="nested deeper than"):
                loads_as(text, dict[str, Any], "a table")
    with pytest.raises(ProtocolError, match="a table: "):
        loads_as(b"[1]", dict[str, Any], "a table")
    assert loads_as(b"{0:'a'}", dict[str, str], "a table") == {"0": "a"}


def test_the_last_of_two_members_with_a_name_counts_and_halves_of_pairs_are_marks() -> None:
    assert loads('{"a":1,"a":2}') == loads("{a:1,a:2}") == {"a": 2}
    assert loads('{"\\ud800":"\\udc00"}') == {"?": "?"}


def test_many_references_to_a_large_object_are_read_in_time() -> None:
    """Each row is read once, and not 1e10 times."""
    text = '{"a":{"x":[' + ",".join(["[]"] * 100_000) + ']},"b":['
    text += ",".join(['{"$ref":"$.a.x"}'] * 100_000) + "]}"
    value = loads(text)
    assert len(value["b"]) == 100_000
    assert value["b"][-1] is value["b"][0]
