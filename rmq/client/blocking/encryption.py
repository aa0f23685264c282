"""Encryption: whether the command line and tools speak TLS, and whom they trust.

    RMQ_TLS=1 RMQ_TLS_CA=authority.pem rmq topic list      the environment's
    use(RMQ_TLS="1", RMQ_TLS_CA="authority.pem")           what was said otherwise
    RMQ_TLS_VERIFY=0                                       any certificate will do
    RMQ_TLS_CERT, RMQ_TLS_KEY, RMQ_TLS_KEY_PASSWORD        what servers are shown that ask for it

Every blocking connection of the process is made by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from rmq.errors import ConfigError
from rmq.format.client_tls import ClientTls, FileError, TlsOptions

ON, AUTHORITY, VERIFY = "RMQ_TLS", "RMQ_TLS_CA", "RMQ_TLS_VERIFY"
CERTIFICATE, KEY, PASSWORD = "RMQ_TLS_CERT", "RMQ_TLS_KEY", "RMQ_TLS_KEY_PASSWORD"
COMMAND = TlsOptions(
    "--tls or RMQ_TLS=1",
    "--tls-ca FILE or RMQ_TLS_CA",
    "--tls-cert FILE or RMQ_TLS_CERT",
    "RMQ_TLS_VERIFY=0",
)
_NAMED = {"authorities": ("--tls-ca", AUTHORITY), "certificate": ("--tls-cert", CERTIFICATE)}
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")

_given: dict[str, str] = {}  # by the name in the environment


def use(**given: str) -> None:
    """RMQ_TLS="1" and others, from now on, whatever the environment says."""
    _given.update(given)


def forget() -> None:
    """What use() said."""
    _given.clear()


@contextmanager
def forgotten() -> Iterator[None]:
    """In the block the environment alone counts."""
    before = dict(_given)
    _given.clear()
    try:
        yield
    finally:
        _given.update(before)


def _said(name: str) -> str:
    return _given.get(name) or os.environ.get(name) or ""


def _key() -> str:
    """Of the certificate that is used: the environment's belongs to the environment's."""
    return _given.get(KEY, "") if _given.get(CERTIFICATE) else _said(KEY)


def client_tls() -> ClientTls | None:
    """None: plain."""
    if _said(ON).lower() not in _YES:
        return None
    return ClientTls(
        _said(AUTHORITY) or None,
        _said(VERIFY).lower() not in _NO,
        _said(CERTIFICATE) or None,
        _key() or None,
        _said(PASSWORD) or None,
    )


def checked_tls() -> ClientTls | None:
    """As client_tls(). ConfigError, which says where it was named: a file that cannot be used."""
    found = client_tls()
    if found is not None:
        try:
            _check(found)
        except FileError as error:
            option, variable = _NAMED[error.what]
            name = f"{option} " if _given.get(variable) else f"{variable}="
            raise ConfigError(f"{name}{error.files}") from None
    return found


@lru_cache
def _check(tls: ClientTls) -> None:
    """Once: who replaces the files while a command runs is told by the connections it makes."""
    tls.context()
