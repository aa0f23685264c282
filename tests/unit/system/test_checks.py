"""`rmq check`: its verdicts on a machine with default settings, and on one that was set up."""

import json
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from rmq.broker.tasks.retention import disk_ratio
from rmq.cli.main import cli
from rmq.config import load_properties
from rmq.system import checks
from rmq.system.checks import Finding, check
from rmq.system.kernel_files import KernelFiles

FRESH = {
    "vm/max_map_count": 65530, "vm/swappiness": 60, "vm/dirty_background_ratio": 5,
    "vm/dirty_ratio": 20, "vm/overcommit_memory": 2, "vm/zone_reclaim_mode": 1,
    "vm/min_free_kbytes": 1024, "fs/file-max": 1000, "net/core/somaxconn": 128,
    "net/ipv4/tcp_max_syn_backlog": 128, "kernel/numa_balancing": 1,
}  # fmt: skip


def machine(root: Path, sysctls: dict[str, int], **files: str) -> KernelFiles:
    files = {
        "proc/meminfo": "MemTotal: 65536000 kB\nSwapTotal: 1024 kB\n",
        "proc/self/mountinfo": f"30 21 8:1 / {root} rw,relatime - ext4 /dev/sda1 rw\n",
        "sys/devices/system/node/online": "0-1",
        "sys/devices/pci/sda/queue/rotational": "1",
        **{f"proc/sys/{key}": str(value) for key, value in sysctls.items()},
        **files,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "sys/dev/block").mkdir(parents=True, exist_ok=True)
    link = root / "sys/dev/block/8:1"
    if not link.is_symlink():
        link.symlink_to(root / "sys/devices/pci/sda")
        (root / "sys/block").mkdir(exist_ok=True)
        (root / "sys/block/sda").symlink_to(root / "sys/devices/pci/sda")
    return KernelFiles(root)


def look(root: Path, made: KernelFiles) -> dict[str, Finding]:
    return {each.name: each for each in check(made, root / "store", load_properties())}


def test_every_key_of_a_fresh_machine_is_told_with_the_command_that_mends_it(
    tmp_path: Path,
) -> None:
    found = look(tmp_path, machine(tmp_path, FRESH))
    for row in checks.KEYS:
        assert found[row.key].good is False, row.key
        assert found[row.key].command == f"sysctl -w {row.key}={row.value}"
    mended = {row.key.replace(".", "/"): row.value for row in checks.KEYS}
    again = look(tmp_path, machine(tmp_path, mended))
    for row in checks.KEYS:
        assert again[row.key].good is True, row.key
        assert again[row.key].command == ""


def test_a_key_this_kernel_does_not_have_is_unknown_not_wrong(tmp_path: Path) -> None:
    found = look(tmp_path, machine(tmp_path, {}))
    assert all(found[row.key].good is None for row in checks.KEYS)
    assert found["vm.swappiness"].now == "unknown"


def test_what_has_no_effect_is_not_complained_about(tmp_path: Path) -> None:
    no_swap = {"proc/meminfo": "MemTotal: 65536000 kB\nSwapTotal: 0 kB\n"}
    one_node = {"sys/devices/system/node/online": "0"}
    found = look(tmp_path, machine(tmp_path, FRESH, **no_swap, **one_node))
    assert found["vm.swappiness"].good is True
    assert "kernel.numa_balancing" not in found
    by_bytes = FRESH | {"vm/dirty_ratio": 0, "vm/dirty_background_ratio": 0}
    assert look(tmp_path, machine(tmp_path, by_bytes))["vm.dirty_ratio"].good is True


@pytest.mark.parametrize(
    ("rotational", "schedulers", "good", "command"),
    [
        ("1", "none [mq-deadline] bfq", True, ""),
        ("1", "noop [cfq] deadline", False, "echo deadline > /sys/block/sda/queue/scheduler"),
        ("1", "[none]", False, ""),
        ("0", "[none] mq-deadline", True, ""),
        ("0", "none mq-deadline [bfq]", False, "echo none > /sys/block/sda/queue/scheduler"),
    ],
)
def test_the_io_scheduler_fits_the_disk(
    tmp_path: Path, rotational: str, schedulers: str, good: bool, command: str
) -> None:
    queue = "sys/devices/pci/sda/queue"
    made = machine(
        tmp_path, {}, **{f"{queue}/rotational": rotational, f"{queue}/scheduler": schedulers}
    )
    finding = look(tmp_path, made)["IO scheduler of sda"]
    assert (finding.good, finding.command) == (good, command)


def test_memory_processors_and_file_system(tmp_path: Path) -> None:
    clock = "sys/devices/system/clocksource/clocksource0"
    files = {
        "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave",
        f"{clock}/current_clocksource": "hpet",
        f"{clock}/available_clocksource": "hpet tsc acpi_pm",
        "proc/self/cgroup": "0::/x",
        "sys/fs/cgroup/x/cpu.max": "50000 100000",
        "proc/self/mountinfo": f"30 21 0:5 / {tmp_path} rw,strictatime - tmpfs tmpfs rw\n",
    }
    found = look(tmp_path, machine(tmp_path, {}, **files))
    for name, command in {
        "transparent huge pages": "echo madvise >",
        "frequency governor": "echo performance |",
        "clock source": "echo tsc >",
        "processor quota": "AllowedCPUs",
        "file system of the store": "--store on an ext4",
        "access times": f"mount -o remount,noatime {tmp_path}",
    }.items():
        assert found[name].good is False, name
        assert command in found[name].command, name
    assert found["processor quota"].now == "0.5 processors"


def test_space_for_the_store_counts_the_size_of_its_files(tmp_path: Path) -> None:
    small = load_properties(overrides={"mappedFileSizeCommitLog": "65536",
                                       "diskMaxUsedSpaceRatio": "100"})  # fmt: skip
    findings = check(KernelFiles(tmp_path), tmp_path, small)
    assert findings[-1].name == "free space for the store" and findings[-1].good
    none = load_properties(overrides={"diskMaxUsedSpaceRatio": "1"})
    assert check(KernelFiles(tmp_path), tmp_path, none)[-1].good is False


def test_space_that_is_kept_for_others_is_not_called_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Space that is reserved for root must not count as used: here half of the blocks are of no use
    to a broker, and a fifth of the broker's own half is taken."""
    blocks = os.statvfs_result((4096, 4096, 200 << 20, 180 << 20, 80 << 20, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: blocks)
    found = check(KernelFiles(tmp_path), tmp_path, load_properties())[-1]
    assert (found.good, found.now) == (True, "327,680 MiB, 20% used")
    assert disk_ratio(tmp_path) == 0.2


def test_the_command_on_this_machine(tmp_path: Path) -> None:
    runner = CliRunner()
    plain = runner.invoke(cli, ["check", "--store", str(tmp_path)])
    assert plain.exit_code == 0
    assert re.search(r"\d+ of \d+ need no change", plain.output)
    findings = json.loads(runner.invoke(cli, ["check", "--store", str(tmp_path), "--json"]).output)
    wrong = [each for each in findings if each["good"] is False]
    for each in wrong:
        assert f"{each['name']}: {each['why']}" in plain.output
        assert each["command"] in plain.output
    strict = runner.invoke(cli, ["check", "--store", str(tmp_path), "--strict"])
    assert strict.exit_code == (1 if wrong else 0)
    lines = runner.invoke(cli, ["check", "--store", str(tmp_path), "--sysctl"]).output.split("\n")
    assert [line for line in lines if line] == [
        each["command"][10:] for each in wrong if each["command"].startswith("sysctl -w ")
    ]


@pytest.mark.parametrize("pinned, good", [("true", True), ("false", False)])
def test_several_nodes_ask_for_shards_that_are_bound_to_them(
    tmp_path: Path, pinned: str, good: bool
) -> None:
    made = machine(tmp_path, {}, **{"sys/devices/system/node/online": "0-3"})
    settings = load_properties(None, {"rmqPinShards": pinned})
    finding = next(f for f in check(made, tmp_path, settings) if f.name == "NUMA nodes")
    assert (finding.now, finding.good) == ("4", good)
    assert bool(finding.command) is not good
