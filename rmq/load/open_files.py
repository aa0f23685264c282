"""Open files: what a load needs of them, and what to say where there are too few.

needed(connections=40, loops=3, by_tls=False)       107
with explained(): ...          ConfigError in place of "too many open files"
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from rmq.errors import ConfigError

OWN = 64  # of a load generator: what is no connection of the load
OF_TLS = 3  # the loop's end of a pair, the other end, and the peer's socket
REMEDY = "raise the limit of open files (ulimit -n)"
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
_OF_EPOLL = ("epoll_create1",)  # of compiled modules, without its number


def needed(connections: int, loops: int, by_tls: bool) -> int:
    return OWN + loops + connections * (OF_TLS if by_tls else 1)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """ConfigError, with the remedy, when there are no more."""
    try:
        yield
    except OSError as error:
        if error.errno not in _TOO_MANY and error.args != _OF_EPOLL:
            raise
        raise ConfigError(f"{error.strerror or error}: {REMEDY}") from None
