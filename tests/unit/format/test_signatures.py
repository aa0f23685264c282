"""Signatures: the bytes that official clients sign; and each change of a request breaks its
signature."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from rmq.format.signature import is_right, sign

FIELDS = {"topic": "t", "AccessKey": "alice", "b": "ümlaut", "Zeta": "z"}
BODY = b"\x00\xffbody"


def signed(**more: str) -> dict[str, str]:
    fields = {**FIELDS, **more}
    return {**fields, "Signature": sign(fields, BODY, "secret")}


def test_values_in_order_of_their_names_and_the_body_are_signed() -> None:
    content = "alice" + "z" + "ümlaut" + "t"  # AccessKey, Zeta, b, topic: as Java orders text
    digest = hmac.new(b"secret", content.encode() + BODY, hashlib.sha1).digest()
    assert signed()["Signature"] == base64.b64encode(digest).decode()
    assert is_right(signed(), BODY, "secret")


@pytest.mark.parametrize(
    ("change", "body", "password"),
    [
        ({}, BODY, "Secret"),
        ({}, BODY + b"x", "secret"),
        ({}, b"", "secret"),
        ({"topic": "u"}, BODY, "secret"),
        ({"more": "x"}, BODY, "secret"),
        ({"AccessKey": "bob"}, BODY, "secret"),
        ({"Signature": ""}, BODY, "secret"),
        ({"Signature": "no base64!"}, BODY, "secret"),
        ({"Signature": "AAAA"}, BODY, "secret"),
    ],
)
def test_whatever_is_changed_breaks_it(change: dict[str, str], body: bytes, password: str) -> None:
    assert not is_right({**signed(), **change}, body, password)


def test_each_flipped_bit_breaks_it() -> None:
    """The bits of the signature's text: those of the digest, and the two that Base64 has beyond
    it."""
    fields = signed()
    text = fields["Signature"].encode()
    for bit in range(8 * len(text)):
        flipped = bytearray(text)
        flipped[bit // 8] ^= 1 << bit % 8
        wrong = {**fields, "Signature": flipped.decode("latin-1")}
        assert not is_right(wrong, BODY, "secret"), bit


@pytest.mark.parametrize("name", ["SecurityToken", "_UNIQUE_KEY_QUERY"])
def test_what_some_clients_do_not_sign_may_be_signed_or_not(name: str) -> None:
    assert is_right({**signed(), name: "x"}, BODY, "secret")
    assert is_right(signed(**{name: "x"}), BODY, "secret")
    assert not is_right({**signed(**{name: "x"}), name: "y"}, BODY, "secret")
