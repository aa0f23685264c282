"""Advised options: what the commands of the ready line need where nobody else may ask.

    options, variables = advised_options(settings)      " --user admin --tls-ca /etc/ca.pem", ""

Never a password: `--user` asks for it. Names and files that only the operator knows are in capitals
(NAME, AUTHORITY.pem). Where a server has no certificate but that of its own, which nobody can
check, the variables before each command say so.
"""

from __future__ import annotations

import shlex
import ssl

from rmq.auth.options import AuthOptions
from rmq.config import Settings

UNCHECKED = "RMQ_TLS_VERIFY=0 "
AUTHORITY = "AUTHORITY.pem"  # who has signed the server's certificate


def advised_options(settings: Settings) -> tuple[str, str]:
    """(behind a command, before it); empty where everybody may ask."""
    words: list[str] = []
    who = AuthOptions.of(settings)
    if who.authenticates:
        known = who.first_user or who.inner
        words += ["--user", known.access_key if known is not None else "NAME"]
    before = ""
    if getattr(settings, "tls.server.mode") == "enforcing":
        before = "" if getattr(settings, "tls.server.certPath") else UNCHECKED
        words += _tls_words(settings) or ["--tls"]
    return "".join(f" {shlex.quote(word)}" for word in words), before


def _tls_words(settings: Settings) -> list[str]:
    words: list[str] = []
    certificate = getattr(settings, "tls.server.certPath")
    if certificate:
        trusted = getattr(settings, "tls.client.trustCertPath")
        if not trusted:
            trusted = certificate if _has_root(certificate) else AUTHORITY
        words += ["--tls-ca", trusted]
    if getattr(settings, "tls.server.need.client.auth") == "require":
        words += ["--tls-cert", getattr(settings, "tls.client.certPath")]  # Settings insists on it
        key = getattr(settings, "tls.client.keyPath")
        words += ["--tls-key", key] if key else []
    return words


def _has_root(path: str) -> bool:
    """Whether the file holds an authority that has signed itself, which clients can trust."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except OSError:  # an SSLError is one, too
        return False
    return any(each["subject"] == each["issuer"] for each in context.get_ca_certs())
