"""Open files: how many a load needs, and the error when there are too few.

needed(connections=40, loops=3, by_tls=False)       107
with explained(): ...          ConfigError instead of "too many open files"
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from rmq.errors import ConfigError

OWN = 64  # open files of a load generator that are not connections of the load
OF_TLS = 3  # the loop's end of a pair, the other end, and the peer's socket
REMEDY = "raise the limit of open files (ulimit -n)"
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_OF_EPOLL = ("epoll_create1",)  # arguments of compiled modules' OSError, which has no errno


def needed(connections: int, loops: int, by_tls: bool) -> int:
    return OWN + loops + connections * (OF_TLS if by_tls else 1)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raises ConfigError, with the remedy, when the block can open no more files."""
    try:
        yield
    except OSError as error:
        if error.errno not in _TOO_MANY and error.args != _OF_EPOLL:
            raise
        raise ConfigError(f"{error.strerror or error}: {REMEDY}") from None
