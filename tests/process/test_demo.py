"""Goal: `rmq demo cluster` kills a master, says so, loses nothing, and leaves nothing running.

Method: the command as a process, whose output is read. Most tests start it and its servers as
forks; of tests with several cases, one starts them as programs. Not shown here: the table on a
terminal.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from support import demo_forks
from support.command_line import rmq
from support.rmq_process import AnyProcess, start_rmq
from support.waiting import HANG_S, wait_until

WORDS = ["demo", "cluster"]
COMMAND = [sys.executable, "-m", "rmq", *WORDS]
LAST = re.compile(r"(\d+) failovers; nothing lost: (\d+) sent, (\d+) received, \d+ twice")
PID = re.compile(r"runs: pid (\d+)")
BROKER = re.compile(r"broker-\d+ runs: pid (\d+)")


@contextmanager
def demo(
    *words: object, stderr: IO[str] | None = None, environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (), in_child: Callable[[], None] = demo_forks.begin,
    is_fork: bool = True,
) -> Iterator[AnyProcess]:  # fmt: skip
    """Runs the command, and kills it at the end of the block. before, is_fork: see start_rmq()."""
    process = start_rmq(
        [*WORDS, *words], stderr=stderr or sys.__stderr__, environment=environment, before=before,
        in_child=in_child, is_fork=is_fork,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait(HANG_S)
        if process.stdout is not None:
            process.stdout.close()


def is_gone(pid: int) -> bool:
    """True also for a zombie: it may be that nothing in this container reaps it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("has_etcd", [True, False])
def test_a_master_is_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path, has_etcd: bool
) -> None:
    """In the case with etcd the demo's servers speak only TLS."""
    environment = os.environ if has_etcd else {**os.environ, "PATH": "/bin-without-etcd"}
    by_tls = ["--tls"] if has_etcd else []
    folder, said, asked = tmp_path / "d", "", ""
    with (
        (tmp_path / "errors").open("w+") as errors,
        demo("--dir", folder, "--kill-master", "1", "--seconds", "1", *by_tls, stderr=errors,
             environment=environment, is_fork=not has_etcd) as process,
    ):  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if found := re.search(r"to see the replicas: rmq (replica status .*)", line):
                asked = found[1]
                look_at(asked)
        assert process.wait(HANG_S) == 0, said
        errors.seek(0)
        assert "Traceback" not in errors.read()
    last = LAST.search(said)
    assert last is not None, said
    failovers, sent, received = map(int, last.groups())
    assert failovers >= 1 and sent == received > 20, said
    assert "(master of epoch 1) died; " in said and "is back, and in sync" in said
    assert ("not fault-tolerant" in said) is not ("controller-2 runs" in said)
    assert all(is_gone(int(pid)) for pid in PID.findall(said))
    assert (f" --tls-ca {folder}/tls/authority.pem" in asked) is has_etcd
    keys = list(folder.glob("tls/*.key"))
    assert len(keys) == 2 * has_etcd and all(path.stat().st_mode & 0o077 == 0 for path in keys)


def look_at(asked: str) -> None:
    """The command that the demo prints must work. If the servers speak TLS, it must not work
    without --tls-ca."""
    done = rmq(*shlex.split(asked))
    assert "broker-a: " in done.stdout, done.stderr
    without, _, authority = asked.partition(" --tls-ca ")
    if authority:
        plain = rmq(*shlex.split(without))
        assert plain.returncode == 3 and "if it speaks TLS alone" in plain.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_all_of_it_ends_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    """A signal to the command ends all its servers, even if hang-ups or Ctrl-C are ignored, as in
    commands that a script starts in the background."""
    ignoring = demo_forks.begin_without_hangups
    if number == signal.SIGTERM:
        ignoring = demo_forks.begin_without_interrupts
    by_shell = ("/bin/sh", "-c", 'trap \'\' HUP; exec "$0" "$@"')
    with demo(
        "--replicas", "2", "--dir", tmp_path / "d",
        in_child=ignoring, before=by_shell if number == signal.SIGKILL else (),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        pids: list[int] = []
        for line in process.stdout:
            pids += map(int, PID.findall(line))
            if "to kill the master" in line:
                break
        assert len(pids) >= 4
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(HANG_S) == (-number if number == signal.SIGKILL else 0)
    wait_until(lambda: all(map(is_gone, pids)))


def test_a_second_ctrl_c_says_what_is_known_and_is_no_success(tmp_path: Path) -> None:
    """The brokers stand still from before the first Ctrl-C, so the demo must wait for them."""
    said = ""
    with demo("--replicas", "2", "--dir", tmp_path / "d") as process:
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            brokers = [int(pid) for pid in BROKER.findall(said)]
            if "to kill the master" in line:
                for pid in brokers:
                    os.kill(pid, signal.SIGSTOP)
                process.send_signal(signal.SIGINT)
            elif line.endswith("  stopping\n"):
                process.send_signal(signal.SIGINT)
                for pid in brokers:
                    os.kill(pid, signal.SIGCONT)
        assert process.wait(HANG_S) == 130, said
    # The whole balance is shown if nothing was under way, so that the end did not have to wait.
    assert "  interrupted; nothing lost so far: " in said or LAST.search(said), said
    wait_until(lambda: all(is_gone(int(pid)) for pid in PID.findall(said)))


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    done = subprocess.run([*COMMAND, "--dir", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 2 and "give another --dir" in done.stderr
    assert (tmp_path / "letters").read_text() == "dear"
