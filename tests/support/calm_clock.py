"""Calm clock: a clock that stands still while any process of the machine waits for a processor.

    began = calm_seconds()
    ...
    assert calm_seconds() - began < 2

It shows how long something would take on a machine that has nothing else to do, since other work
causes delays that are no fault of the code under test. Sleeps and waits for a disk or a peer count;
with disk=True waits for a disk do not, because other processes use the disk as well. If the kernel
does not measure such waits (/proc/pressure), this is an ordinary clock.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

CPU, DISK = Path("/proc/pressure/cpu"), Path("/proc/pressure/io")
WAITED_US = re.compile(r"^some .*total=(\d+)$", re.MULTILINE)


def calm_seconds(*, disk: bool = False) -> float:
    """Seconds since an arbitrary moment; only differences have a meaning."""
    waited_s = _waited_s(CPU) + (_waited_s(DISK) if disk else 0.0)
    return time.monotonic() - waited_s


def _waited_s(account: Path) -> float:
    try:
        found = WAITED_US.search(account.read_text())
    except OSError:
        found = None
    return int(found[1]) / 1e6 if found is not None else 0.0
