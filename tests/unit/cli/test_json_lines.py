"""A message as a JSON object: what is printed can be sent again, and what cannot be sent is
named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.client.blocking.tail import ReceivedMessage
from rmq.errors import MessageError
from rmq.format.message import StoredMessage
from rmq.format.own_properties import OWN_PROPERTIES
from rmq.operations.json_lines import members, message_of

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=("Cs",)), min_size=1)
NAMES = TEXT.filter(lambda name: name not in {*OWN_PROPERTIES, "TAGS", "KEYS"})


@given(st.binary(min_size=1), st.dictionaries(NAMES, TEXT, max_size=4), TEXT, TEXT)
def test_what_is_printed_is_sent_as_it_was(
    body: bytes, own: dict[str, str], tag: str, keys: str
) -> None:
    properties = {**own, "TAGS": tag, "KEYS": keys, "UNIQ_KEY": "AB", "WAIT": "true",
                  "TIMER_OUT_MS": "9"}  # fmt: skip
    received = ReceivedMessage("b", StoredMessage(topic="t", body=body), properties, body, None)
    line = json.dumps(members(received)).encode()
    message = message_of(line, "other")
    assert (message.topic, message.body, message.tags, message.keys) == ("other", body, tag, keys)
    found = dict(message.properties)
    assert found == {**own, "TAGS": tag, "KEYS": keys}


def test_a_body_is_enough() -> None:
    assert message_of(b'{"body":"hello"}', "t").body == b"hello"
    assert message_of(b'{"body_base64":"/wA="}', "t").body == b"\xff\0"
    message = message_of(b'{"body":"a","tag":null,"keys":["7","8"],"properties":null}', "t")
    assert (message.tags, message.keys, message.properties) == (None, "7 8", {"KEYS": "7 8"})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not JSON: "),
        (b"\xff", "not JSON: "),
        (b'["hello"]', "not a JSON object such as"),
        (b"{}", "give either body or body_base64"),
        (b'{"body":"a","body_base64":"YQ=="}', "give either body or body_base64"),
        (b'{"body":7}', "the body is not text"),
        (b'{"body":null}', "the body is not text"),
        (b'{"body_base64":"!"}', "body_base64: "),
        (b'{"body":"a","bdy":1}', "unknown key 'bdy': known are body, "),
        ('{"body_base64":"\u00fc"}'.encode(), "body_base64: "),
        (b'{"body_base64":"YQ==","packing":"lz4"}', "still packed by its sender \\(lz4\\)"),
        (b'{"body":"a","properties":{"x":{"y":1}}}', "property 'x' is neither text nor a number"),
        (b'{"body":"a","tag":7}', "tag is not text"),
        (b'{"body":"a","keys":7}', "keys is neither text nor a list"),
        (b'{"body":"a","properties":[]}', "properties is not an object"),
        (b'{"body":"a","properties":{"x":null}}', "property 'x' is None"),
        (b'{"body":"a","properties":{"":"x"}}', "names are not empty"),
    ],
)
def test_what_is_wrong_is_named(line: bytes, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        message_of(line, "t")
