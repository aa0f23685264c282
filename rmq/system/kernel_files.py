"""Kernel files: what the kernel says about the machine under /proc and /sys, read as text.

    kernel = KernelFiles()              or KernelFiles(root) on a copy of the two trees, for tests
    kernel.sysctl("vm.swappiness")      60, None when this kernel has no such key
    kernel.choice("/sys/kernel/mm/transparent_hugepage/enabled")     "madvise", out of
                                        "always [madvise] never"
    kernel.disk(Path("/store"))         Disk(device="nvme0n1", file_system="ext4", ..)

Nothing is changed and nothing is run. A file that may not be read counts as missing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec


class Disk(msgspec.Struct, frozen=True):
    """The file system that holds a directory, and the block device below it."""

    file_system: str  # "" when the mount is not known
    options: frozenset[str]
    device: str | None  # name under /sys/block; None for tmpfs, overlay, network
    mount_point: str


class KernelFiles:
    """The kernel's trees below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def text(self, path: str) -> str | None:
        """The file without white space at its ends; None when it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None

    def sysctl(self, key: str) -> int | None:
        """A number by its sysctl name."""
        return self.number("/proc/sys/" + key.replace(".", "/"))

    def choice(self, path: str) -> str | None:
        """The chosen word of "a [b] c"; a single word is chosen without brackets."""
        text = self.text(path)
        if text is None:
            return None
        found = re.search(r"\[([^\]]+)\]", text)
        return found[1] if found else text

    def choices(self, path: str) -> list[str]:
        return (self.text(path) or "").replace("[", "").replace("]", "").split()

    def memory_kb(self, field: str) -> int | None:
        """A line of /proc/meminfo, such as MemTotal."""
        found = re.search(rf"^{field}:\s+(\d+) kB", self.text("/proc/meminfo") or "", re.MULTILINE)
        return int(found[1]) if found else None

    def nodes(self) -> int:
        """NUMA nodes that are on line; 1 when the kernel does not say."""
        return max(1, len(parse_list(self.text("/sys/devices/system/node/online") or "0")))

    def governors(self) -> set[str]:
        """Frequency governors in use; empty where the machine has none (virtual ones)."""
        folder = self.root / "sys/devices/system/cpu"
        files = folder.glob("cpu[0-9]*/cpufreq/scaling_governor") if folder.is_dir() else ()
        return {path.read_text().strip() for path in files}

    def cpu_quota(self) -> float | None:
        """Processors that the control group grants by time slices; None: no limit."""
        own = re.search(r"^0::(/.*)$", self.text("/proc/self/cgroup") or "", re.MULTILINE)
        group = own[1].rstrip("/") if own else ""
        quotas = []
        while True:
            words = (self.text(f"/sys/fs/cgroup{group}/cpu.max") or "").split()
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]):
                quotas.append(int(words[0]) / int(words[1]))
            if not group:
                return min(quotas, default=None)
            group = group.rpartition("/")[0]

    def disk(self, directory: Path) -> Disk:
        """The disk of the directory, or of the nearest one above that exists."""
        directory = directory.absolute()
        while not directory.exists() and directory != directory.parent:
            directory = directory.parent
        path = str(directory.resolve())
        best: tuple[str, str, str, str] | None = None
        for line in (self.text("/proc/self/mountinfo") or "").splitlines():
            left, _, right = line.partition(" - ")
            fields, after = left.split(), right.split()
            if len(fields) < 6 or len(after) < 3:
                continue
            point = unescape(fields[4])
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and (best is None or len(point) >= len(best[1])):
                best = (fields[2], point, after[0], f"{fields[5]},{after[2]}")
        if best is None:
            return Disk("", frozenset(), None, "/")
        number, point, kind, options = best
        return Disk(kind, frozenset(options.split(",")), self._device(number), point)

    def _device(self, number: str) -> str | None:
        """The whole disk that has the device "major:minor", which may be a partition of it."""
        link = self.root / "sys/dev/block" / number
        try:
            real = Path(os.path.realpath(link))
        except OSError:
            return None
        for folder in (real, real.parent):
            if (folder / "queue").is_dir():
                return folder.name
        return None


def parse_list(text: str) -> list[int]:
    """The kernel's lists: "0-2,5" is [0, 1, 2, 5]."""
    numbers: list[int] = []
    for part in text.strip().split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found:
            numbers += range(int(found[1]), int(found[2] or found[1]) + 1)
    return numbers


def unescape(text: str) -> str:
    """Decodes mount points, in which the kernel writes a blank as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
