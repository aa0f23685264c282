"""The small tools behind the Makefile do what their headers say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.tools import load_tool
from support.tree_process import bare_pytest

NEED = ROOT / "tools" / "need.sh"


def need(*names: str, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", NEED, *names], env={"PATH": path}, capture_output=True, text=True
    )


def test_nothing_missing_is_silent_and_unknown_needs_are_mistakes() -> None:
    path = os.environ["PATH"]
    assert need("make", path=path).stdout == ""
    assert need("unheard-of", path=path).returncode == 2


def test_missing_packages_are_asked_for_by_name_with_the_command(tmp_path: Path) -> None:
    for name, text in (("id", "echo 1000"), ("bash", "exec /bin/bash")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = need("go", "maven", path=str(tmp_path))
    assert done.returncode == 1
    assert "missing: golang-go maven. Install with: sudo apt-get install -y" in done.stderr


def test_what_the_tests_need_is_named_by_its_packages(tmp_path: Path) -> None:
    path = programs(tmp_path / "bare", uname="x86_64")
    done = need("openssl", "redis", "systemd", "aarch64", path=path)
    assert done.returncode == 1
    aarch64 = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
    assert f"missing: openssl redis-server systemd {aarch64}. Install with: sudo" in done.stderr
    path = programs(
        tmp_path / "all",
        **dict.fromkeys(("openssl", "valkey-server", "systemd-analyze"), ""),
        uname="aarch64",
    )
    assert need("openssl", "redis", "systemd", "aarch64", path=path).returncode == 0


@pytest.mark.parametrize(
    ("built", "system", "chosen"),
    [
        ("--enable-shared", sys.executable, "system"),
        ("--enable-shared --enable-optimizations", sys.executable, "python3"),
        ("--enable-shared", "/no/python3", "python3"),  # it is not there
        ("--enable-shared", "/bin/false", "python3"),  # or of no use
        (None, sys.executable, "python3"),  # to be installed
    ],
)
def test_the_environment_is_of_the_faster_python(
    tmp_path: Path, built: str | None, system: str, chosen: str
) -> None:
    if built is not None:
        says = (
            "import sys, sysconfig; code = sys.argv[1]; sys.base_prefix = '/opt'; "
            f"sysconfig.get_config_var = lambda name: {built!r}; exec(code)"
        )
        program = tmp_path / "python3"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{says}" "$2"\n')
        program.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", ROOT / "tools" / "python.sh", system],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.strip() == (system if chosen == "system" else "python3")


def test_a_skipped_test_fails_a_run_that_may_not_skip(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\ndef test_a(): pytest.skip('no such')\ndef test_b(): pass\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for more, code in ((["--no-skips"], 1), (["--no-skips", "-p", "xdist", "-n", "1"], 1), ([], 0)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", *more, "test_x.py"],
            cwd=tmp_path, env=bare_pytest(), capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert ("1 skipped: install what they name" in done.stdout) == bool(code)


def rounds(tmp_path: Path, number: int, tests: str, *options: str) -> tuple[int, str, list[str]]:
    """(exit code, what was said, cells of the rows) of so many rounds of these tests."""
    (tmp_path / "test_x.py").write_text(tests)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "suite_rounds.py", *options, str(number), "--",
         sys.executable, "-m", "pytest", "-q", "test_x.py"],
        cwd=tmp_path, env=bare_pytest(), capture_output=True, text=True,
    )  # fmt: skip
    kept = (tmp_path / "build" / "test-rounds" / "table.txt").read_text()
    assert done.stdout.endswith(kept + "\n"), done.stdout + done.stderr
    return done.returncode, done.stdout, [" ".join(line.split()[:6]) for line in kept.splitlines()]


def test_rounds_of_tests_are_told_one_by_one_with_what_failed(tmp_path: Path) -> None:
    """The second round fails, because it finds a file that the first one left. Beside it there is a
    load."""
    code, said, rows = rounds(
        tmp_path, 2,
        "import os, pathlib, pytest\n"
        "def test_a():\n"
        "    before = pathlib.Path('seen').exists()\n"
        "    pathlib.Path('seen').write_text('')\n"
        "    parent = os.getppid()\n"
        "    text = pathlib.Path(f'/proc/{parent}/task/{parent}/children').read_text()\n"
        "    print('beside:', len(text.split()) - 1)\n"
        "    assert not before\n"
        "def test_b(): pytest.skip('no such')\n"
        "def test_c(tmp_path): pathlib.Path('files').write_text(str(tmp_path))\n",
    )  # fmt: skip
    files = Path((tmp_path / "files").read_text())
    assert "pytest-of-" not in str(files), "where other runs of pytest remove what is oldest"
    assert not files.exists(), "a round leaves none of its files"
    assert (code, rows[1:3]) == (1, ["1 no 0 2 0 1", "2 yes 1 1 1 1"])
    assert "round 2: test_x::test_a" in said and "1 of 2 rounds without a failure" in said
    beside = (tmp_path / "build" / "test-rounds" / "02.txt").read_text().partition("beside: ")[2]
    assert int(beside.split()[0]) >= (os.cpu_count() or 1) + 2


def test_rounds_go_on_where_the_same_was_tested_before(tmp_path: Path) -> None:
    tests = "def test_a(): pass\n"
    assert rounds(tmp_path, 1, tests, "--go-on", "abc")[0] == 0
    failing = "def test_a(): raise ValueError\n"
    code, said, rows = rounds(tmp_path, 2, failing, "--go-on", "abc")
    assert (code, rows[1:3]) == (1, ["1 no 0 1 0 0", "2 yes 1 0 1 0"])
    assert "in round 1 of 2" not in said
    code, said, rows = rounds(tmp_path, 1, tests, "--go-on", "another")
    assert (code, rows[1:]) == (0, ["1 no 0 1 0 0", "1 of 1 rounds without a"])


def test_a_round_that_dies_or_takes_too_long_is_a_failure(tmp_path: Path) -> None:
    code, _, rows = rounds(tmp_path, 1, "import os\ndef test_a(): os._exit(0)\n")
    assert (code, rows[1]) == (1, "1 no 0 0 0 0")
    code, _, rows = rounds(
        tmp_path, 1, "import time\ndef test_a(): time.sleep(600)\n", "--limit", "3"
    )
    assert (code, rows[1]) == (1, "1 no time 0 0 0")
    code, _, rows = rounds(tmp_path, 1, "def test_a(): pass\n")
    assert (code, rows[1]) == (0, "1 no 0 1 0 0")


def programs(folder: Path, **texts: str) -> str:
    """Makes a PATH that has only these programs. Each of them prints its text."""
    folder.mkdir()
    for name, text in {"id": "1000", **texts}.items():
        (folder / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_jdk_or_go_that_is_too_old_counts_as_missing(tmp_path: Path) -> None:
    old = programs(
        tmp_path / "old", java="", javac="javac 1.8.0_402", go="go version go1.18.1 linux/amd64"
    )
    done = need("jdk", "go", path=old)
    assert done.returncode == 1
    assert "missing: default-jdk-headless golang-go. Install with: sudo apt-get" in done.stderr
    new = programs(
        tmp_path / "new", java="", javac="javac 11.0.2", go="go version go1.19.8 linux/arm64"
    )
    done = need("jdk", "go", path=new)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_mirror_copies_changes_and_deletes_what_is_gone(tmp_path: Path) -> None:
    mirror = load_tool("mirror_tree").mirror
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("rmq/a.py", "cext/b.pyx", "cext/b.so", "build/c.c", "setup.py", "tests/lib/d.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(name)
    mirror(source, target)
    (target / "cext" / "b.so").write_text("built there")
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*.*")) == [
        "cext/b.pyx", "cext/b.so", "rmq/a.py", "setup.py",
    ]  # fmt: skip
    (source / "rmq/a.py").unlink()
    (source / "cext/b.pyx").write_text("new")
    mirror(source, target)
    assert not (target / "rmq/a.py").exists()
    assert (target / "cext/b.pyx").read_text() == "new"
    assert (target / "cext/b.so").read_text() == "built there"
