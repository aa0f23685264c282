"""Error text: what is wrong and what to do, without thirty lines before it.

    @brief_errors()                     over a method that Spark calls
    return brief_errors_of(rows)        when it gives an iterator

Spark shows a Python error with its whole way through Spark's worker, and the text that matters
last. A worker leaves the traceback out when SPARK_HIDE_TRACEBACK is set in its environment, and
ends after any error. So it is set at the moment one of ours, which says everything in its text,
leaves for Spark; of other errors, which nobody expected, the traceback stays. Outside of Spark's
workers nothing is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from rmq.errors import RmqError

Row = TypeVar("Row")


@contextmanager
def brief_errors() -> Iterator[None]:
    try:
        yield
    except RmqError:
        if _in_worker():
            os.environ.setdefault("SPARK_HIDE_TRACEBACK", "true")
        raise


def brief_errors_of(rows: Iterator[Row]) -> Iterator[Row]:
    """The same rows; for what fails while they are made."""
    with brief_errors():
        yield from rows


def _in_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and str(spec.name).startswith("pyspark.")
