"""Credentials: whose requests the command line and tools send.

    RMQ_ACCESS_KEY=alice RMQ_SECRET_KEY=secret rmq topic list      the environment's
    use(Credentials("alice", "secret"))                            what was said otherwise

Every blocking connection of the process signs by it, unless it is given another one. Without one
nothing is signed.
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


def use(credentials: Credentials | None) -> None:
    """From now on; None: the environment's."""
    _Given.credentials = credentials


@contextmanager
def instead(credentials: Credentials | None) -> Iterator[None]:
    """In the block; None: the environment's."""
    before = _Given.credentials
    _Given.credentials = credentials
    try:
        yield
    finally:
        _Given.credentials = before


def was_given() -> bool:
    """By use(), whatever the environment says."""
    return _Given.credentials is not None


def present() -> Credentials | None:
    """ConfigError: the environment has half of one."""
    if _Given.credentials is not None:
        return _Given.credentials
    name, secret = os.environ.get(NAME, ""), os.environ.get(SECRET, "")
    if not name:
        return None
    if not secret:
        raise ConfigError(f"{NAME}={name} is set, and {SECRET} is not")
    return Credentials(name, secret)
