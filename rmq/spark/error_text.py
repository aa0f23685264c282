"""Error text: Spark's user sees what is wrong and what to do, without thirty lines before it.

    @brief_errors()                     over a method that Spark calls
    return brief_errors_of(rows)        when the method returns an iterator

Spark shows an error from Python with the whole traceback through its worker, and the text that
matters comes last. A worker leaves the traceback out when SPARK_HIDE_TRACEBACK is set in its
environment, and it ends after any error. So the variable is set at the moment an RmqError, whose
text says everything, is raised to Spark. Other errors are unexpected and keep their traceback.
Outside of Spark's workers the variable is never set.
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
    """Yields the same rows; errors that are raised while they are made are brief, too."""
    with brief_errors():
        yield from rows


def _in_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and str(spec.name).startswith("pyspark.")
