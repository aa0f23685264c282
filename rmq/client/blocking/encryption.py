"""Encryption: whether the command line and tools use TLS, and which certificates they trust.

    RMQ_TLS=1 RMQ_TLS_CA=authority.pem rmq topic list      from the environment
    use(RMQ_TLS="1", RMQ_TLS_CA="authority.pem")           instead of the environment's
    RMQ_TLS_VERIFY=0                                       any certificate is accepted
    RMQ_TLS_CERT, RMQ_TLS_KEY, RMQ_TLS_KEY_PASSWORD        for servers that ask for a certificate

It counts for every blocking connection of the process.
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
    """From now on these values count, RMQ_TLS="1" for example, whatever the environment says."""
    _given.update(given)


def forget() -> None:
    """Forgets the values given to use()."""
    _given.clear()


@contextmanager
def forgotten() -> Iterator[None]:
    """In the block only the environment counts, and not what use() has set."""
    before = dict(_given)
    _given.clear()
    try:
        yield
    finally:
        _given.update(before)


def _said(name: str) -> str:
    return _given.get(name) or os.environ.get(name) or ""


def _key() -> str:
    """The key of the certificate that is used. The environment's key belongs to the environment's
    certificate."""
    return _given.get(KEY, "") if _given.get(CERTIFICATE) else _said(KEY)


def client_tls() -> ClientTls | None:
    """How connections are encrypted; None: they are plain."""
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
