"""Checks: those of `rmq check`, each with the value of now, the advised one, why, and a command.

    for finding in check(KernelFiles(), Path("/store"), settings): ...
        Finding("vm.swappiness", now="60", advised="at most 10", good=False, why="..",
                command="sysctl -w vm.swappiness=1")

The list is that of RocketMQ's os.sh and of its best practice, without settings that have no effect
on rmq (drop_caches, page-cluster), and with those that matter to a process pinned to its cores.
`good` is None where the kernel does not give the value. Commands are for root and last until the
next boot; `rmq check --sysctl` prints the keys for a file under /etc/sysctl.d.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from rmq.config import Settings
from rmq.system.disk_use import space_of, used_part
from rmq.system.kernel_files import KernelFiles

MIB = 1 << 20
GOOD_FILE_SYSTEMS = {"ext4", "xfs", "btrfs", "zfs", "ext3", "f2fs"}
QUICK_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}
FILES_WANTED = 655_350
SPACE = "free space for the store"
LOCKED_WANTED = 5 << 28  # a shard's arena without its jumbo buffers, by the defaults


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    name: str
    now: str
    advised: str
    good: bool | None
    why: str
    command: str = ""  # sets the advised value; empty when there is none, or nothing to do

    @property
    def sysctl(self) -> str | None:
        """The line for /etc/sysctl.d; None when the finding is about something else."""
        prefix = "sysctl -w "
        return self.command[len(prefix):] if self.command.startswith(prefix) else None  # fmt: skip


class _Key(msgspec.Struct, frozen=True):
    """A sysctl key with a rule."""

    key: str
    fits: Callable[[int, KernelFiles], bool]
    advised: str
    value: int  # what the command sets
    why: str
    applies: Callable[[KernelFiles], bool] = lambda kernel: True


KEYS = (
    _Key("vm.max_map_count", lambda n, m: n >= 655_360, "at least 655360", 655_360,
         "log files are read through mappings; Apache RocketMQ on the same machine needs many"),
    _Key("vm.swappiness", lambda n, m: n <= 10 or not m.memory_kb("SwapTotal"), "at most 10", 1,
         "a buffer that is swapped out stops every client of its shard"),
    _Key("vm.dirty_background_ratio", lambda n, m: n == 0 or n >= 10, "at least 10", 50,
         "the broker syncs by itself; earlier write-back by the kernel only disturbs it"),
    _Key("vm.dirty_ratio", lambda n, m: n == 0 or n >= 40, "at least 40", 50,
         "beyond it the kernel makes whoever writes wait: the thread that serves all clients"),
    _Key("vm.overcommit_memory", lambda n, m: n in (0, 1), "0 or 1", 1,
         "buffers are reserved as address space; 2 counts that as memory and refuses it"),
    _Key("vm.zone_reclaim_mode", lambda n, m: n == 0, "0", 0,
         "else page cache is thrown away although other nodes have memory"),
    _Key("vm.min_free_kbytes", lambda n, m: n >= _least_free_kb(m), "64 MiB; 1 % of a small memory",
         262_144, "too little makes network and disk wait for memory to be reclaimed"),
    _Key("fs.file-max", lambda n, m: n >= FILES_WANTED, f"at least {FILES_WANTED}", 2_097_152,
         "of the whole machine: connections, log and queue files"),
    _Key("net.core.somaxconn", lambda n, m: n >= 4096, "at least 4096", 4096,
         "clients that come back all at once after a restart wait in this queue"),
    _Key("net.ipv4.tcp_max_syn_backlog", lambda n, m: n >= 4096, "at least 4096", 8192,
         "the same queue, one step earlier"),
    _Key("kernel.numa_balancing", lambda n, m: n == 0, "0 with several nodes", 0,
         "shards are bound to their node; moving pages about only costs faults",
         applies=lambda kernel: kernel.nodes() > 1),
)  # fmt: skip


def check(kernel: KernelFiles, store: Path, settings: Settings) -> list[Finding]:
    """All findings, in the order of the report."""
    return [
        *_keys(kernel),
        *_limits(settings),
        *_memory(kernel),
        *_processors(kernel, settings),
        *_disk(kernel, store, settings),
    ]


def _least_free_kb(kernel: KernelFiles) -> int:
    total = kernel.memory_kb("MemTotal") or 0
    return min(65_536, total // 100)


def _keys(kernel: KernelFiles) -> Iterator[Finding]:
    for row in KEYS:
        if not row.applies(kernel):
            continue
        value = kernel.sysctl(row.key)
        good = None if value is None else row.fits(value, kernel)
        yield Finding(
            row.key, _shown(value), row.advised, good, row.why,
            f"sysctl -w {row.key}={row.value}" if good is False else "",
        )  # fmt: skip


def _limits(settings: Settings) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(65_536, 2 * int(settings.rmqMaxConnections))
    yield Finding(
        "limit of open files", f"{_limit(soft)}, hard {_limit(hard)}", f"at least {wanted}",
        _reaches(soft, wanted), "one for each connection, log file and queue file in use",
        "" if _reaches(soft, wanted)
        else f"echo '* - nofile {FILES_WANTED}' >> /etc/security/limits.d/rmq.conf  "
             f"(systemd: LimitNOFILE={FILES_WANTED})",
    )  # fmt: skip
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    wanted = LOCKED_WANTED + 2 * int(settings.rmqRingBytes)
    yield Finding(
        "limit of locked memory", f"{_limit(soft)}, hard {_limit(hard)}",
        f"unlimited, or at least {wanted}", _reaches(soft, wanted),
        "each shard's buffers, once touched, are kept in memory where this allows it",
        "" if _reaches(soft, wanted)
        else "echo '* - memlock unlimited' >> /etc/security/limits.d/rmq.conf  "
             "(systemd: LimitMEMLOCK=infinity)",
    )  # fmt: skip


def _memory(kernel: KernelFiles) -> Iterator[Finding]:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    chosen = kernel.choice(path)
    good = None if chosen is None else chosen in ("madvise", "never")
    yield Finding(
        "transparent huge pages", _shown(chosen), "madvise", good,
        "always makes idle memory larger and stalls whoever touches it first",
        f"echo madvise > {path}" if good is False else "",
    )  # fmt: skip


def _processors(kernel: KernelFiles, settings: Settings) -> Iterator[Finding]:
    governors = kernel.governors()
    if governors:
        good = governors == {"performance"}
        yield Finding(
            "frequency governor", ", ".join(sorted(governors)), "performance", good,
            "a shard waits often and shortly; a slow clock after each wait is latency",
            "" if good else "echo performance | tee "
            "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )  # fmt: skip
    nodes, pinned = kernel.nodes(), settings.rmqPinShards
    yield Finding(
        "NUMA nodes", str(nodes), "one, or rmqPinShards=true", nodes == 1 or pinned,
        "the threads and buffers of each shard are bound to a node, if they may be",
        "" if nodes == 1 or pinned else "--set rmqPinShards=true",
    )  # fmt: skip
    folder = "/sys/devices/system/clocksource/clocksource0"
    clock = kernel.text(f"{folder}/current_clocksource")
    good_clock = None if clock is None else clock in QUICK_CLOCKS
    offered = kernel.choices(f"{folder}/available_clocksource")
    better = next((name for name in offered if name in QUICK_CLOCKS), None)
    yield Finding(
        "clock source", _shown(clock), "tsc or the hypervisor's", good_clock,
        "others are read by a system call, once a turn and more",
        f"echo {better} > {folder}/current_clocksource" if good_clock is False and better else "",
    )  # fmt: skip
    quota = kernel.cpu_quota()
    yield Finding(
        "processor quota", "none" if quota is None else f"{quota:g} processors", "none",
        quota is None, "who has used up his slice stands still to its end; give whole processors",
        "" if quota is None else "set no CPUQuota/cpu.max; use AllowedCPUs (cpuset) instead",
    )  # fmt: skip


def _disk(kernel: KernelFiles, store: Path, settings: Settings) -> Iterator[Finding]:
    disk = kernel.disk(store)
    known = bool(disk.file_system)
    yield Finding(
        "file system of the store", _shown(disk.file_system or None), "ext4 or xfs",
        disk.file_system in GOOD_FILE_SYSTEMS if known else None,
        "it must keep its word on fdatasync, and preallocate files; network and memory ones do not",
        "" if not known or disk.file_system in GOOD_FILE_SYSTEMS
        else "--store on an ext4 or xfs file system of its own",
    )  # fmt: skip
    if known and disk.device:
        yield from _device(kernel, disk.device)
    good_time = bool(disk.options & {"noatime", "relatime"})
    yield Finding(
        "access times", "noatime" if "noatime" in disk.options else "relatime"
        if "relatime" in disk.options else "strict", "noatime or relatime",
        good_time if known else None, "else reading a log file writes its inode",
        "" if good_time or not known else f"mount -o remount,noatime {disk.mount_point}",
    )  # fmt: skip
    yield _free_space(store, settings)


def _device(kernel: KernelFiles, device: str) -> Iterator[Finding]:
    path = f"/sys/block/{device}/queue"
    scheduler = kernel.choice(f"{path}/scheduler")
    spins = kernel.number(f"{path}/rotational") == 1
    fitting = ("mq-deadline", "deadline") if spins else ("none", "noop", "mq-deadline", "deadline")
    offered = kernel.choices(f"{path}/scheduler")
    better = next((name for name in fitting if name in offered), None)
    good = None if scheduler is None else scheduler in fitting
    yield Finding(
        f"IO scheduler of {device}", _shown(scheduler),
        "mq-deadline" if spins else "none or mq-deadline", good,
        "fair queueing lets the one writer of a shard wait for everybody else's reads",
        f"echo {better} > {path}/scheduler" if good is False and better else "",
    )  # fmt: skip


def _free_space(store: Path, settings: Settings) -> Finding:
    space = space_of(store)
    free, used = space.f_bavail * space.f_frsize, used_part(space)
    wanted = 3 * int(settings.mappedFileSizeCommitLog)
    limit = int(settings.diskMaxUsedSpaceRatio) / 100
    good = free >= wanted and used < limit  # as the broker judges (rmq/broker/tasks/retention.py)
    return Finding(
        SPACE, f"{free / MIB:,.0f} MiB, {used:.0%} used",
        f"3 log files ({wanted / MIB:,.0f} MiB), below {limit:.0%} used", good,
        "log files are made ahead; beyond diskMaxUsedSpaceRatio old ones are deleted early",
        "" if good else "more disk, or a smaller mappedFileSizeCommitLog",
    )  # fmt: skip


def _shown(value: int | str | None) -> str:
    return "unknown" if value is None else str(value)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _reaches(limit: int, wanted: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= wanted
