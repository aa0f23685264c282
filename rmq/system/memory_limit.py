"""Memory limit: how much memory this process may use: the machine's, or less in a control group.

    memory_bytes()      268435456 in a container of 256 MiB

Control groups of both versions count: this process's own and those above it.
"""

import os
from pathlib import Path


def memory_bytes(root: Path = Path("/")) -> int:
    """`root`: where /proc and /sys are, for tests."""
    sizes = [os.sysconf("SC_PAGESIZE") * os.sysconf("SC_PHYS_PAGES")]
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            base, file = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be one of the machine's, which does not exist here. Then the
        # directories above it are looked at, up to the top, which is the container's group.
        directory = base / group.lstrip("/")
        while True:
            limit = _text(directory / file)
            if limit.isdecimal():
                sizes.append(int(limit))
            if directory == base:
                break
            directory = directory.parent
    return min(sizes)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
