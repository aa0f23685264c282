"""A clock that stands still while a process waits for a processor, whoever's that is.

    began = calm_seconds()
    ...
    assert calm_seconds() - began < 2

What something takes on a machine that has nothing else to do: other work makes it later, and is no
fault of what is measured. Time that is slept, or waited for a disk or a peer, counts; with
disk=True, that for a disk, which others have too, does not. Where the kernel keeps no such account
(/proc/pressure) it is an ordinary clock.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

CPU, DISK = Path("/proc/pressure/cpu"), Path("/proc/pressure/io")
WAITED_US = re.compile(r"^some .*total=(\d+)$", re.MULTILINE)


def calm_seconds(*, disk: bool = False) -> float:
    """Since whenever; only differences mean something."""
    waited_s = _waited_s(CPU) + (_waited_s(DISK) if disk else 0.0)
    return time.monotonic() - waited_s


def _waited_s(account: Path) -> float:
    try:
        found = WAITED_US.search(account.read_text())
    except OSError:
        found = None
    return int(found[1]) / 1e6 if found is not None else 0.0
