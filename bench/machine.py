"""Machine: facts of the machine on which numbers were measured, and of the measured tree.

machine(Path("/var/tmp"))     {"cpu": "...", "cpus": 2, ..., "file system": "ext4 rw,relatime"}
page_state()                  {"Cached": "2,113 MiB", "Dirty": "1 MiB", ...}
touch_free_pages()            "12,032 MiB were touched before, in 9.1 s"
commit()                      "3f2c9d1e5a07", with "+" where files differ from it
"""

import mmap
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

from servers import ROOT

MEMORY_LINES = ("MemTotal", "MemFree", "Cached", "Dirty", "Writeback", "SwapTotal")
PAGE_REPORTING = "/sys/module/page_reporting"
KERNEL_FILES = {
    "transparent huge pages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "dirty_background_ratio": "/proc/sys/vm/dirty_background_ratio",
    "dirty_ratio": "/proc/sys/vm/dirty_ratio",
    "dirty_expire_centisecs": "/proc/sys/vm/dirty_expire_centisecs",
    "frequency governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    # Where this file exists, free blocks of 2^order pages go back to the host, and their next use
    # is a first touch again, whatever was touched before.
    "free pages go to the host": f"{PAGE_REPORTING}/parameters/page_reporting_order",
    "clock source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
}

CONTROL_GROUP = Path("/sys/fs/cgroup")
CHUNK_BYTES = 64 << 20


def machine(stores: Path | None = None) -> dict[str, Any]:
    """Facts of the machine. `stores` is where the servers' files will be; its file system is one
    of the facts."""
    model = platform.machine()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    for line in lines:
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    facts = {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "virtual": any(line.startswith("flags") and " hypervisor" in line for line in lines),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": Path("/proc/loadavg").read_text().split()[:3],
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    for name, path in KERNEL_FILES.items():
        if os.access(path, os.R_OK):
            facts[name] = chosen(Path(path).read_text().strip())
    if stores is not None:
        facts["file system"] = said("findmnt", "-n", "-o", "FSTYPE,OPTIONS", "--target", stores)
    return facts


def chosen(text: str) -> str:
    """The word in brackets, which is in effect, of a text like "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0] or text


def page_state() -> dict[str, str]:
    """The kernel's counts of pages now."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in MEMORY_LINES:
            found[name] = f"{int(rest.split()[0]) // 1024:,} MiB"
    return found


def free_bytes() -> int:
    """Free memory that this process may use."""
    free = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
    most, used = (CONTROL_GROUP / "memory.max", CONTROL_GROUP / "memory.current")
    if most.exists() and (text := most.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    return free


def touch_free_pages(keep_bytes: int = 1 << 30) -> str:
    """Writes to all free memory except keep_bytes, and gives it back. The host of a virtual machine
    hands pages out at their first touch; after this no row pays for that. Returns a note."""
    began = time.monotonic()
    held: list[mmap.mmap] = []
    for _ in range((free_bytes() - keep_bytes) // CHUNK_BYTES):
        if free_bytes() < keep_bytes + CHUNK_BYTES:  # other processes have taken memory meanwhile
            break
        held.append(mmap.mmap(-1, CHUNK_BYTES))
        held[-1][:: mmap.PAGESIZE] = bytes(CHUNK_BYTES // mmap.PAGESIZE)
    for each in held:
        each.close()
    size = len(held) * CHUNK_BYTES >> 20
    return f"{size:,} MiB were touched before, in {time.monotonic() - began:.1f} s"


def commit() -> str:
    """The commit of the tree that is measured; "unknown" without git."""
    head = said("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    changed = said("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
    return (head or "unknown") + ("+" if changed else "")


def said(*command: str | Path) -> str:
    """What a program prints, in one line; empty when the program is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError:
        return ""
    return " ".join(done.stdout.split()) if done.returncode == 0 else ""
