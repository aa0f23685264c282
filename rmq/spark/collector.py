"""Collector: keeps Python's garbage collector off objects that never change in a worker process.

Spark collects garbage after every task. 35 ms of that go to modules, which stay as they are.
"""

from __future__ import annotations

import gc
import os

from rmq.arrow.options import Options

_frozen_in: list[int] = []


def freeze_once(options: Options) -> None:
    """Exempts all present objects, once in each process, unless the option gcFreeze is false."""
    if options.gc_freeze and os.getpid() not in _frozen_in:
        gc.collect()
        gc.freeze()
        _frozen_in[:] = [os.getpid()]
