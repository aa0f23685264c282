"""Fake machine: a folder that looks like /sys and /proc of a machine, for tests of placement."""

from pathlib import Path


def fake_machine(
    root: Path,
    nodes: int = 1,
    cores: int = 4,
    threads: int = 1,
    offline: set[int] = frozenset(),  # type: ignore[assignment]
    cpuset: str = "",
    quota: str = "",
    cgroup: str = "/app",
) -> set[int]:
    """Makes a machine with `cores` on each of `nodes`. Processors are numbered as kernels do: the
    first threads of all cores, then the second ones. Returns all processors, as an affinity that
    allows everything."""
    total = nodes * cores
    cpus = set(range(total * threads))
    system = root / "sys/devices/system"
    for cpu in cpus - offline:
        core = cpu % total
        siblings = [core + total * t for t in range(threads) if core + total * t not in offline]
        topology = system / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(",".join(map(str, siblings)) + "\n")
    (system / "cpu/online").write_text(",".join(map(str, sorted(cpus - offline))) + "\n")
    for node in range(nodes):
        directory = system / f"node/node{node}"
        directory.mkdir(parents=True)
        first = node * cores
        own = sorted(cpu for cpu in cpus - offline if first <= cpu % total < first + cores)
        (directory / "cpulist").write_text(",".join(map(str, own)) + "\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"0::{cgroup}\n")
    directory = root / "sys/fs/cgroup" / cgroup.strip("/")
    directory.mkdir(parents=True)
    if cpuset:
        (directory / "cpuset.cpus.effective").write_text(cpuset + "\n")
    if quota:
        (directory / "cpu.max").write_text(quota + "\n")
    return cpus
