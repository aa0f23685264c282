"""Log before: undoes, at the end of a block, what changes the log of this process.

with log_as_before():
    set_up("json", 200, {})         # removes all handlers
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rmq.base.audit_file import LOGGER


@contextmanager
def log_as_before() -> Iterator[None]:
    root, audit = logging.getLogger(), logging.getLogger(LOGGER)
    before, level = root.handlers[:], root.level
    audited, propagates = audit.handlers[:], audit.propagate
    try:
        yield
    finally:
        root.handlers[:], audit.handlers[:] = before, audited
        root.setLevel(level)
        audit.propagate = propagates
