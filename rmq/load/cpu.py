"""CPU: CPU seconds of processes, read from /proc.

The kernel keeps the run time of each thread in nanoseconds in /proc/PID/task/TID/schedstat. The sum
over the threads is taken if no thread has ended since start(), because the time of an ended thread
is lost, even if it began after start(). Otherwise, or if schedstat is missing, utime + stime of
/proc/PID/stat are taken, in ticks of 10 ms. Time that the kernel spends in its own threads for
processes (write-back, soft interrupts) is not counted.

    meter = CpuMeter([broker_pid]); meter.start(); ...; meter.seconds()  ->  1.234
"""

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_TICK_ERROR_S = 3 / _TICKS  # rounding of user and system time at both ends; threads read later


class CpuMeter:
    """CPU seconds that the given processes spend between start() and seconds()."""

    def __init__(self, pids: list[int]) -> None:
        self.pids = list(pids)
        for pid in self.pids:
            if not Path(f"/proc/{pid}").exists():
                raise ProcessLookupError(f"no process {pid}")
        self.start()

    def start(self) -> None:
        self._threads = {pid: thread_times(pid) for pid in self.pids}
        self._ticks = {pid: tick_seconds(pid) for pid in self.pids}

    def seconds(self) -> float:
        """The seconds since start(). ProcessLookupError: a process has ended, and its time is
        unknown."""
        return sum(self._one(pid) for pid in self.pids)

    def known_seconds(self) -> float | None:
        """seconds(), or None when there are no processes or one has ended."""
        try:
            return self.seconds() if self.pids else None
        except ProcessLookupError:
            return None

    def _one(self, pid: int) -> float:
        before, after = self._threads[pid], thread_times(pid)
        ticks = _known_ticks(pid)
        if ticks is None:
            raise ProcessLookupError(f"process {pid} has ended meanwhile")
        by_ticks = ticks - self._ticks[pid]
        if before and after and before.keys() <= after.keys():
            by_threads = sum(after.values()) - sum(before.values())
            if by_ticks - by_threads <= _TICK_ERROR_S:
                return by_threads
        return by_ticks


def thread_times(pid: int) -> dict[str, float]:
    """Thread id -> CPU seconds; empty when the kernel does not show them."""
    times = {}
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                times[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return {}
    return times


def tick_seconds(pid: int) -> float:
    """utime + stime of the whole process, ended threads included; 0 when it is gone."""
    return _known_ticks(pid) or 0.0


def _known_ticks(pid: int) -> float | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Resident memory of a process (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def with_descendants(pid: int) -> list[int]:
    """The process and everything it started, directly or not."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                continue
    return found
