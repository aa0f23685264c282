"""A kill and a closed terminal end a command as Ctrl-C does, also where Ctrl-C is ignored.

Method: a small program that starts with ignored signals, as a shell's script starts background
programs, and as nohup does.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.tree_process import environment
from support.waiting import HANG_S

from rmq.cli.signals import ENDS, ended_as_ctrl_c

WRITING = """
import select, sys
from pathlib import Path
from rmq.cli.export import whole_file
with whole_file(Path(sys.argv[1])) as part:
    part.write_text("a part")
    print("works", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        pass
"""
PROGRAM = """
import select, sys
from rmq.cli.signals import end_as_ctrl_c
end_as_ctrl_c()
try:
    print("works", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        pass
    print("went on", flush=True)
except KeyboardInterrupt:
    print("cleaned up", flush=True)
"""


def started(ignored: str) -> subprocess.Popen[str]:
    """ignored: the signals that the shell ignores before the program begins."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f"trap '' {ignored}; exec \"$0\" -c \"$1\"", sys.executable, PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_is_interrupted_where_ctrl_c_is_ignored(number: signal.Signals) -> None:
    with started("INT") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        process.send_signal(number)
        assert process.stdout.readline() == "cleaned up\n"
        assert process.wait(HANG_S) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_file_that_is_being_written_goes(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITING, str(tmp_path / "orders.parquet")], env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.wait(HANG_S) != 0
    assert list(tmp_path.iterdir()) == []


def test_behind_the_block_signals_do_what_they_did() -> None:
    before = [signal.getsignal(number) for number in ENDS]
    with ended_as_ctrl_c():
        during = [signal.getsignal(number) for number in ENDS]
    assert [signal.getsignal(number) for number in ENDS] == before != during


def test_nohup_is_heeded() -> None:
    with started("HUP") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "works\n"
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=HANG_S)[0] == "went on\n"
