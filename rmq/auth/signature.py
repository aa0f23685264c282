"""Signature: proof that a request comes from who knows the user's password.

Base64 of HmacSHA1 over the values of all fields but Signature itself, in the order of their names,
and the body as it was sent. The code of the request is not in it, nor a time: only TLS keeps
somebody who listens from sending it again.

What official clients sign differently, and is right too:

    SecurityToken       Go's client sends it and does not sign it
    _UNIQUE_KEY_QUERY   Java clients up to 4.9.3 do not sign it

Example: sign({"topic": "t", "AccessKey": "alice"}, b"", "secret") is the Signature of a request
with these fields.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"
UNSIGNED = ("_UNIQUE_KEY_QUERY", SECURITY_TOKEN)


def sign(fields: Mapping[str, str], body: bytes, password: str) -> str:
    return base64.b64encode(_digest(fields, body, password, frozenset())).decode()


def is_right(fields: Mapping[str, str], body: bytes, password: str) -> bool:
    """Whether the request's Signature is one by this password. Takes as long for a wrong one."""
    try:
        given = base64.b64decode(fields.get(SIGNATURE, ""), validate=True)
    except ValueError:
        return False
    left_out = [name for name in UNSIGNED if name in fields]
    choices = [frozenset[str](), *(frozenset((name,)) for name in left_out)]
    found = [hmac.compare_digest(given, _digest(fields, body, password, out)) for out in choices]
    return any(found)


def _digest(
    fields: Mapping[str, str], body: bytes, password: str, left_out: frozenset[str]
) -> bytes:
    signed = (
        fields[name] for name in sorted(fields) if name != SIGNATURE and name not in left_out
    )
    content = "".join(signed).encode("utf-8", "surrogatepass") + body
    return hmac.digest(password.encode(), content, "sha1")
