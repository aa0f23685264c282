"""Credentials: the account that signs the requests of the command line and of tools.

    RMQ_ACCESS_KEY=alice RMQ_SECRET_KEY=secret rmq topic list      from the environment
    use(Credentials("alice", "secret"))                            instead of the environment's
    forget()                                                       neither

Every blocking connection of the process signs with it, unless the connection is given another one.
Without an account nothing is signed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rmq.errors import ConfigError
from rmq.format.signature import Credentials

NAME, SECRET = "RMQ_ACCESS_KEY", "RMQ_SECRET_KEY"


class _Given:
    credentials: Credentials | None = None
    is_forgotten = False


def use(credentials: Credentials | None) -> None:
    """From now on requests are signed with these; None: with the environment's."""
    _Given.credentials = credentials


def forget() -> None:
    """From now on nothing is signed, whatever was given."""
    _Given.is_forgotten = True


@contextmanager
def instead(credentials: Credentials | None) -> Iterator[None]:
    """In the block requests are signed with these; None: with the environment's."""
    before = _Given.credentials
    _Given.credentials = credentials
    try:
        yield
    finally:
        _Given.credentials = before


def was_given() -> bool:
    """Whether use() has set credentials, whatever the environment says."""
    return _Given.credentials is not None


def present() -> Credentials | None:
    """The credentials to sign with; None: requests are not signed. ConfigError: the environment
    has a name without a password."""
    if _Given.is_forgotten:
        return None
    if _Given.credentials is not None:
        return _Given.credentials
    name, secret = os.environ.get(NAME, ""), os.environ.get(SECRET, "")
    if not name:
        return None
    if not secret:
        raise ConfigError(f"{NAME}={name} is set, and {SECRET} is not")
    return Credentials(name, secret)
