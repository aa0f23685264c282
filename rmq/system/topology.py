"""Topology: cores and nodes as the kernel shows them, and which of them this process may use.

    /sys/devices/system/cpu/online                          0-7
    /sys/devices/system/cpu/cpu0/topology/thread_siblings_list   0,4    two threads of one core
    /sys/devices/system/cpu/cpu0/topology/physical_package_id    0
    /sys/devices/system/node/node0/cpulist                  0-3
    /proc/self/cgroup + /sys/fs/cgroup/<path>/cpuset.cpus.effective   0-1
    /sys/fs/cgroup/<path>/cpu.max                           200000 100000   two cores' worth of time

A processor is usable if it is online, in the process' affinity, and in the cpuset of its cgroup.
Where files are missing (old kernels, containers that hide /sys), each processor counts as a core
(no topology directory), and all belong to one node (no node directory).

Example: read_topology() on two cores with two threads each, on one node, is
Topology((Core(0, (0, 2)), Core(0, (1, 3))), None). Tests give a fake tree as `root`.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import msgspec

CPUS_MAX = 8192  # the kernel's most; a list that names more is malformed


class Core(msgspec.Struct, frozen=True, order=True):
    """One physical core, as far as this process may use it."""

    node: int
    cpus: tuple[int, ...]  # its usable hardware threads, ascending


class Topology(msgspec.Struct, frozen=True):
    cores: tuple[Core, ...]  # by node and first processor; at least one
    quota_cores: float | None = None  # processor time the cgroup gets, in cores; None: no limit

    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({core.node for core in self.cores}))

    def cpus_of_node(self, node: int) -> tuple[int, ...]:
        return tuple(sorted(cpu for c in self.cores if c.node == node for cpu in c.cpus))


def parse_cpu_list(text: str) -> set[int]:
    """{0, 1, 2, 3, 8} of "0-3,8"; ValueError when the text is no such list."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        low = int(first)
        high = int(last) if dash else low
        if not 0 <= low <= high < CPUS_MAX:
            raise ValueError(f"{part!r} is no range of processors")
        found.update(range(low, high + 1))
    return found


def read_topology(root: Path = Path("/"), affinity: set[int] | None = None) -> Topology:
    """The cores that this process may use. `affinity` replaces the kernel's answer, for tests."""
    allowed = set(os.sched_getaffinity(0)) if affinity is None else set(affinity)
    system = root / "sys/devices/system"
    online = _cpu_list(system / "cpu/online")
    usable = allowed & online if online else allowed
    groups = _cgroup_directories(root)
    cpuset = _cpuset(groups)
    if cpuset and usable & cpuset:
        usable &= cpuset
    node_of = _nodes(system / "node")
    cores: dict[frozenset[int], list[int]] = {}
    for cpu in sorted(usable):
        threads = _threads(system / f"cpu/cpu{cpu}/topology", cpu)
        cores.setdefault(frozenset(threads), []).append(cpu)
    found = sorted(Core(node_of.get(cpus[0], 0), tuple(cpus)) for cpus in cores.values())
    return Topology(tuple(found), _quota(groups))


def home_node(topology: Topology) -> int:
    """The node for a broker of one shard: the one with most usable processors; -1: only one
    exists."""
    nodes = topology.nodes()
    if len(nodes) == 1:
        return -1
    return max(nodes, key=lambda node: (len(topology.cpus_of_node(node)), -node))


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _cpu_list(path: Path) -> set[int]:
    """The processors that the file lists; none when it is missing or not understood."""
    try:
        return parse_cpu_list(_text(path) or "")
    except ValueError:
        return set()


def _threads(topology: Path, cpu: int) -> set[int]:
    for name in ("core_cpus_list", "thread_siblings_list"):
        found = _cpu_list(topology / name)
        if cpu in found:
            return found
    return {cpu}


def _nodes(directory: Path) -> dict[int, int]:
    """processor -> node."""
    found: dict[int, int] = {}
    for path in directory.glob("node*"):
        number = path.name.removeprefix("node")
        if number.isdecimal():
            found.update(dict.fromkeys(_cpu_list(path / "cpulist"), int(number)))
    return found


def _cgroup_directories(root: Path) -> list[Path]:
    """Directories whose files limit this process: its own cgroup and all above it, of both
    versions. In a container the path in /proc may lie outside of what is mounted; then the top of
    the mount counts."""
    mount = root / "sys/fs/cgroup"
    found: list[Path] = []
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        tops = [mount] if not controllers else [mount / name for name in controllers.split(",")]
        parts = [part for part in PurePosixPath(path).parts if part not in ("/", "..")]
        for top in tops:
            found += [top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return found or [mount]


def _cpuset(groups: list[Path]) -> set[int]:
    """The cpuset of the innermost directory that has one. The kernel keeps it within outer ones."""
    for group in groups:
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            found = _cpu_list(group / name)
            if found:
                return found
    return set()


def _quota(groups: list[Path]) -> float | None:
    """The smallest limit of all levels, in cores."""
    limits = []
    for group in groups:
        words = (_text(group / "cpu.max") or "").split()
        if len(words) != 2:
            words = [_text(group / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
        if all(word.isdecimal() for word in words) and int(words[1]) > 0:
            limits.append(int(words[0]) / int(words[1]))
    return min(limits) if limits else None
