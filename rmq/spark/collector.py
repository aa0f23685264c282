"""Python's collector, kept off what never changes in a worker process.

Spark collects garbage after every task, 35 ms of it over modules that stay as they are.
"""

from __future__ import annotations

import gc
import os

from rmq.arrow.options import Options

_frozen_in: list[int] = []


def freeze_once(options: Options) -> None:
    """In each process once, unless the options say that it is not wanted."""
    if options.gc_freeze and os.getpid() not in _frozen_in:
        gc.collect()
        gc.freeze()
        _frozen_in[:] = [os.getpid()]
