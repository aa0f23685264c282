"""A clock that stands still while a process waits for a processor, whoever's that is.

    began = calm_seconds()
    ...
    assert calm_seconds() - began < 2

What something takes on a machine that has nothing else to do: other work makes it later, and is no
fault of what is measured. Time that is slept, or waited for a disk or a peer, counts. Where the
kernel keeps no such account (/proc/pressure) it is an ordinary clock.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
WAITED_US = re.compile(r"^some .*total=(\d+)$", re.MULTILINE)


def calm_seconds() -> float:
    """Since whenever; only differences mean something."""
    try:
        found = WAITED_US.search(PRESSURE.read_text())
    except OSError:
        found = None
    return time.monotonic() - (int(found[1]) / 1e6 if found is not None else 0.0)
