"""Whose requests are sent, in tests of accounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from rmq.format.signature import Credentials


@contextmanager
def account(who: Credentials | None) -> Iterator[None]:
    """Those of the command line and of blocking connections, for the block; None: nobody's."""
    given = {"RMQ_ACCESS_KEY": who.access_key, "RMQ_SECRET_KEY": who.secret_key} if who else {}
    with patch.dict(os.environ, given):
        if who is None:
            os.environ.pop("RMQ_ACCESS_KEY", None)
        yield
