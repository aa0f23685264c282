"""Reading the kernel's file trees, here copies from a few machines."""

from pathlib import Path

import pytest

from rmq.system.kernel_files import KernelFiles, parse_list, unescape


def write(root: Path, files: dict[str, str]) -> KernelFiles:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return KernelFiles(root)


def test_numbers_choices_and_what_is_missing(tmp_path: Path) -> None:
    kernel = write(tmp_path, {
        "/proc/sys/vm/swappiness": "60\n", "/proc/sys/vm/odd": "a b",
        "/sys/thp": "always [madvise] never\n", "/sys/single": "tsc\n",
        "/proc/meminfo": "MemTotal:       16384 kB\nSwapTotal:          0 kB\n",
    })  # fmt: skip
    assert kernel.sysctl("vm.swappiness") == 60
    assert kernel.sysctl("vm.odd") is None
    assert kernel.sysctl("vm.none") is None
    assert kernel.choice("/sys/thp") == "madvise"
    assert kernel.choices("/sys/thp") == ["always", "madvise", "never"]
    assert kernel.choice("/sys/single") == "tsc"
    assert kernel.choice("/sys/none") is None
    assert kernel.memory_kb("MemTotal") == 16384
    assert kernel.memory_kb("SwapTotal") == 0
    assert kernel.memory_kb("Swap") is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("", []), ("0-1,8-9\n", [0, 1, 8, 9]), ("x", [])],
)
def test_the_kernels_lists(text: str, numbers: list[int]) -> None:
    assert parse_list(text) == numbers


def test_nodes_and_governors(tmp_path: Path) -> None:
    assert KernelFiles(tmp_path).nodes() == 1
    assert KernelFiles(tmp_path).governors() == set()
    kernel = write(tmp_path, {
        "/sys/devices/system/node/online": "0-3",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    })  # fmt: skip
    assert kernel.nodes() == 4
    assert kernel.governors() == {"powersave", "performance"}


def test_the_smallest_quota_of_the_groups_above_counts(tmp_path: Path) -> None:
    assert KernelFiles(tmp_path).cpu_quota() is None
    kernel = write(tmp_path, {
        "/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/cpu.max": "max 100000",
        "/sys/fs/cgroup/a/cpu.max": "150000 100000",
    })  # fmt: skip
    assert kernel.cpu_quota() == 1.5
    (tmp_path / "sys/fs/cgroup/a/cpu.max").write_text("max 100000")
    assert kernel.cpu_quota() is None


def test_the_disk_of_a_directory_is_that_of_the_longest_mount(tmp_path: Path) -> None:
    store = tmp_path / "data" / "store"
    block = tmp_path / "sys/devices/pci/nvme0n1"
    (block / "queue").mkdir(parents=True)
    (block / "nvme0n1p2").mkdir()
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/259:2").symlink_to(block / "nvme0n1p2")
    write(tmp_path, {"/proc/self/mountinfo": (
        "21 1 0:20 / / rw,relatime shared:1 - overlay overlay rw\n"
        f"30 21 259:2 / {tmp_path} rw,noatime shared:2 - xfs /dev/nvme0n1p2 rw,attr2\n"
        "broken line\n"
    )})  # fmt: skip
    disk = KernelFiles(tmp_path).disk(store)
    assert (disk.file_system, disk.device, disk.mount_point) == ("xfs", "nvme0n1", str(tmp_path))
    assert "noatime" in disk.options and "attr2" in disk.options
    other = KernelFiles(tmp_path).disk(Path("/"))
    assert (other.file_system, other.device) == ("overlay", None)


def test_blanks_in_mount_points() -> None:
    assert unescape("/mnt/my\\040disk") == "/mnt/my disk"
