"""The compiled check of signatures, compared with its Python twin, which makes the signatures."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cext.base.status import Status
from cext.testing.request_probe import signature_status
from rmq.errors import ProtocolError
from rmq.format.remoting import JSON, ROCKETMQ, Command, encode
from rmq.format.signature import Credentials, is_right, sign

OK, MALFORMED, TOO_LARGE = Status.OK, Status.MALFORMED, Status.TOO_LARGE
BODY = b"\x00body\xff"
VALUES_MAX = 262_144  # as in cext/wire/signature.pxd
SHAPED = 12  # so many requests of one kind make another shape of the same length lose its trust
names = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ_", min_size=1, max_size=12)
values = st.text(max_size=40)


def check(fields: dict[str, str], body: bytes, password: str, form: int = JSON) -> int:
    frame = encode(Command(code=310, fields=fields, serialize_type=form))
    size = int.from_bytes(frame[5:8], "big")
    return signature_status(frame[8 : 8 + size], form, body, password.encode())


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
@given(
    fields=st.dictionaries(names, values, max_size=20), body=st.binary(max_size=200),
    password=st.text(min_size=1, max_size=100),
)  # fmt: skip
def test_what_the_twin_signs_is_right(
    form: int, fields: dict[str, str], body: bytes, password: str
) -> None:
    signed = Credentials("alice", password).sign(fields, body)
    assert check(signed, body, password, form) == OK
    assert check(signed, body + b"x", password, form) == MALFORMED
    assert check(signed, body, password + "x", form) == MALFORMED
    assert check({**signed, "Mm": "x"}, body, password, form) == MALFORMED


def test_the_order_of_the_request_before_is_not_taken_where_it_is_anothers() -> None:
    """The check remembers the order of the last request's fields. In the others names stand in
    other places or are new, a field comes twice, the signature is missing or stands elsewhere. Each
    is checked after a usual request, and so often that its header has a known shape, whose names
    are not read again."""
    alice = Credentials("alice", "secret")
    usual = alice.sign({"a": "1", "b": "2", "c": "3"}, BODY)
    others = [
        (alice.sign({"d": "1", "b": "2", "a": "3"}, BODY), OK),
        (alice.sign({"c": "1", "a": "2", "b": "3"}, BODY), OK),
        (alice.sign({"a": "1", "b": "2", "Z": "3"}, BODY), OK),
        ({name: usual[name] for name in ("Signature", "a", "b", "c", "AccessKey")}, OK),
        ({**usual, "c": "2", "b": "3"}, MALFORMED),
        ({"a": "1", "b": "2", "c": "3", "AccessKey": "alice", "Signaturf": "x"}, MALFORMED),
        (usual, OK),
    ]
    for fields, expected in others:
        for each, wanted in ((usual, OK), (fields, expected)):
            for _ in range(SHAPED):
                assert check(each, BODY, "secret") == wanted, each
    proof = alice.sign({"a": "3", "b": "2"}, BODY)["Signature"]
    end = f'"AccessKey":"alice","Signature":"{proof}"'
    for text, expected in (
        (f'"a":"1","b":"2","a":"3",{end}', OK),
        (f'"Signature":"x","b":"2","a":"3",{end}', OK),
        (f'"b":"2","Signature":"{proof}","a":"4",{end}', MALFORMED),
        (f'"a":"3","b":"2","c":"3",{end}', MALFORMED),
    ):
        assert check(usual, BODY, "secret") == OK
        for _ in range(SHAPED):
            assert signature_status(header_of(text), JSON, BODY, b"secret") == expected, text


@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 255])
def test_passwords_around_the_block_of_the_hash(length: int) -> None:
    signed = Credentials("alice", "p" * length).sign({"b": "t"}, BODY)
    assert check(signed, BODY, "p" * length) == OK


@pytest.mark.parametrize("length", [*range(130), 4095, 4096, 4097, 4160])
def test_bodies_around_the_blocks_of_the_hash_and_those_that_are_not_copied(length: int) -> None:
    body = bytes(range(256)) * 17
    signed = Credentials("alice", "secret").sign({"b": "t"}, body[:length])
    assert check(signed, body[:length], "secret") == OK
    assert check(signed, body[: length + 1], "secret") == MALFORMED


@pytest.mark.parametrize("room", range(80))
def test_a_body_behind_values_that_leave_it_little_room(room: int) -> None:
    fields = {"a": "x" * (VALUES_MAX - len("alice") - len(BODY) - room)}
    signed = Credentials("alice", "secret").sign(fields, BODY)
    assert check(signed, BODY, "secret") == OK


@pytest.mark.parametrize("name", ["SecurityToken", "_UNIQUE_KEY_QUERY"])
def test_what_some_clients_do_not_sign_may_be_signed_or_not(name: str) -> None:
    plain = Credentials("alice", "secret").sign({"b": "t"}, BODY)
    assert check({**plain, name: "x"}, BODY, "secret") == OK
    assert check(Credentials("alice", "secret").sign({"b": "t", name: "x"}, BODY), BODY, "secret") \
        == OK  # fmt: skip
    both = Credentials("alice", "secret").sign({"b": "t", name: "x"}, BODY)
    assert check({**both, name: "y"}, BODY, "secret") == MALFORMED


@pytest.mark.parametrize("signature", [None, "", "AAAA", "A" * 28, "A" * 5000, "no base64 at all!"])
def test_what_is_no_signature(signature: str | None) -> None:
    fields = {"AccessKey": "alice", "b": "t"}
    if signature is not None:
        fields["Signature"] = signature
    assert check(fields, BODY, "secret") == MALFORMED


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
def test_each_flipped_bit_of_the_signature_breaks_it(form: int) -> None:
    """The bits are flipped in the header itself, whatever the bytes are after that."""
    fields = Credentials("alice", "secret").sign({"b": "t"}, BODY)
    frame = encode(Command(code=310, fields=fields, serialize_type=form))
    header = frame[8 : 8 + int.from_bytes(frame[5:8], "big")]
    proof = fields["Signature"].encode()
    at = header.index(proof)
    assert signature_status(header, form, BODY, b"secret") == OK
    for bit in range(8 * len(proof)):
        flipped = bytearray(header)
        flipped[at + bit // 8] ^= 1 << bit % 8
        try:
            status = signature_status(bytes(flipped), form, BODY, b"secret")
        except ProtocolError:
            continue  # the bytes are no header any more
        assert status != OK, bit


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def test_one_text_of_a_digest_counts_and_no_other() -> None:
    """The last letter has two bits more than the digest needs. A reader that decodes the text never
    sees them, so it would accept four texts."""
    fields = Credentials("alice", "secret").sign({"b": "t"}, BODY)
    proof = fields["Signature"]
    kept = LETTERS.index(proof[26]) & ~3
    for spare in range(4):
        text = proof[:26] + LETTERS[kept | spare] + "="
        assert base64.b64decode(text) == base64.b64decode(proof)
        status = check({**fields, "Signature": text}, BODY, "secret")
        assert (status == OK) == (text == proof)
        in_python = is_right({**fields, "Signature": text}, BODY, "secret")
        assert in_python == (text == proof)


def header_of(text: str) -> bytes:
    return b'{"code":310,"extFields":{' + text.encode() + b'},"opaque":1}'


def test_json_as_others_write_it() -> None:
    """JSON as other libraries write it: escapes of any kind, numbers without quotes, null, a name
    that comes twice."""
    fields = {"a": "\x01\x02/ü", "n": "5", "t": "true", "z": "last"}
    proof = sign(fields, BODY, "secret")
    text = (
        '"z":"first","a":"\\u0001\\u0002\\/\\u00fc","n":5,"t":true,"none":null,"z":"last",'
        f'"Signature":{json.dumps(proof)}'
    )
    assert signature_status(header_of(text), JSON, BODY, b"secret") == OK
    escaped = "".join(f"\\u{ord(each):04x}" for each in proof)
    text = text.replace(json.dumps(proof), f'"{escaped}"')
    assert signature_status(header_of(text), JSON, BODY, b"secret") == OK


def test_names_with_backslashes_and_very_long_values_are_controls_work() -> None:
    text = '"\\u0061":"x","Signature":"AAAAAAAAAAAAAAAAAAAAAAAAAAA="'
    assert signature_status(header_of(text), JSON, BODY, b"secret") == TOO_LARGE
    text = f'"a":"\\u0001{"x" * 270_000}","Signature":"AAAAAAAAAAAAAAAAAAAAAAAAAAA="'
    assert signature_status(header_of(text), JSON, BODY, b"secret") == TOO_LARGE
    long = Credentials("alice", "secret").sign({"a": "x" * 250_000}, BODY)
    assert check(long, BODY, "secret") == OK
