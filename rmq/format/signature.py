"""Signature: proof that a request comes from somebody who knows the user's password.

It is the Base64 of HmacSHA1 over the values of all fields but Signature itself, in the order of
their names, and the body as it was sent. It covers neither the request's code nor a time: only TLS
keeps somebody who listens from sending the request again.

Official clients leave out these fields, which is accepted, too:

    SecurityToken       Go's client sends it and does not sign it
    _UNIQUE_KEY_QUERY   Java clients up to 4.9.3 do not sign it

Example: Credentials("alice", "secret").sign({"topic": "t"}) is {"topic": "t", "AccessKey": "alice",
"Signature": ..}.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
UNSIGNED = ("_UNIQUE_KEY_QUERY", SECURITY_TOKEN)
ASKER = frozenset((ACCESS_KEY, SIGNATURE, SECURITY_TOKEN))


@dataclass(frozen=True)
class Credentials:
    """An account's name and password, with which a client signs, under RocketMQ's names."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, fields: Mapping[str, str], body: bytes = b"") -> dict[str, str]:
        """The fields, with those added that prove who sends them."""
        signed = {**fields, ACCESS_KEY: self.access_key}
        if self.security_token is not None:
            signed[SECURITY_TOKEN] = self.security_token
        signed.pop(SIGNATURE, None)
        signed[SIGNATURE] = sign(signed, body, self.secret_key)
        return signed


def without_asker(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields without those of the asker, for passing a request on: the receiver must not get
    the signature, which would fit other requests of the same bytes."""
    return {name: text for name, text in fields.items() if name not in ASKER}


def signed_bytes(fields: Mapping[str, str]) -> bytes:
    """The bytes of the fields that are signed, before the body."""
    signed = (fields[name] for name in sorted(fields) if name != SIGNATURE)
    return "".join(signed).encode("utf-8", "replace")


def sign(fields: Mapping[str, str], body: bytes, password: str) -> str:
    return base64.b64encode(_digest(fields, body, password, frozenset())).decode()


def is_right(fields: Mapping[str, str], body: bytes, password: str) -> bool:
    """Whether the request's Signature was made with this password. A wrong one takes as long to
    check. The texts are compared, as in the reactor: Base64 has four texts for a digest of this
    length."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    left_out = [name for name in UNSIGNED if name in fields]
    choices = [frozenset[str](), *(frozenset((name,)) for name in left_out)]
    wanted = [base64.b64encode(_digest(fields, body, password, out)) for out in choices]
    found = [hmac.compare_digest(given, each) for each in wanted]
    return any(found)


def _digest(
    fields: Mapping[str, str], body: bytes, password: str, left_out: frozenset[str]
) -> bytes:
    kept = {name: text for name, text in fields.items() if name not in left_out}
    return hmac.digest(password.encode(), signed_bytes(kept) + body, "sha1")
