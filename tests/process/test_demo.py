"""Goal: `rmq demo cluster` kills a master, tells of it, loses nothing, and leaves nothing running.

Method: the command as a process; what it says is read. Not shown here: the table on a terminal.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import HANG_S, wait_until

COMMAND = [sys.executable, "-m", "rmq", "demo", "cluster"]
LAST = re.compile(r"(\d+) failovers; nothing lost: (\d+) sent, (\d+) received, \d+ twice")
PID = re.compile(r"runs: pid (\d+)")


def is_gone(pid: int) -> bool:
    """Or a zombie, where nobody in this container takes it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("has_etcd", [True, False])
def test_a_master_is_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path, has_etcd: bool
) -> None:
    environment = os.environ if has_etcd else {**os.environ, "PATH": "/bin-without-etcd"}
    done = subprocess.run(
        [*COMMAND, "--dir", str(tmp_path / "d"), "--kill-master", "3", "--seconds", "5"],
        capture_output=True, text=True, timeout=HANG_S, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    last = LAST.search(done.stdout)
    assert last is not None, done.stdout
    failovers, sent, received = map(int, last.groups())
    assert failovers >= 1 and sent == received > 100
    assert "(master of epoch 1) died; " in done.stdout and "is back, and in sync" in done.stdout
    assert ("not fault-tolerant" in done.stdout) is not ("controller-2 runs" in done.stdout)
    assert all(is_gone(int(pid)) for pid in PID.findall(done.stdout))
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_all_of_it_ends_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--replicas", "2", "--dir", str(tmp_path / "d")], stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    pids = []
    for line in process.stdout:
        pids += map(int, PID.findall(line))
        if "kill a master" in line:
            break
    assert len(pids) >= 4
    process.send_signal(number)
    process.stdout.read()
    assert process.wait(HANG_S) == (0 if number == signal.SIGINT else -number)
    process.stdout.close()
    wait_until(lambda: all(map(is_gone, pids)))


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    done = subprocess.run([*COMMAND, "--dir", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2 and "name another --dir" in done.stderr
    assert (tmp_path / "letters").read_text() == "dear"
