"""A command only tries to print: it goes on, and ends well, even if nobody reads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.tree_process import environment
from support.waiting import HANG_S

PROGRAM = """
import sys
from rmq.cli.streams import say
say("first", err=sys.argv[1] == "stderr")
input()
for number in range(100):
    say(f"unread {number}", err=sys.argv[1] == "stderr")
open(sys.argv[2], "w").write("done")
"""


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_work_goes_on_where_its_lines_are_read_no_more(name: str, tmp_path) -> None:
    place, pipes = tmp_path / "place", {name: subprocess.PIPE}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, name, str(place)],
        stdin=subprocess.PIPE, text=True, env=environment(), **pipes,
    )  # fmt: skip
    pipe = getattr(process, name)
    assert pipe.readline() == "first\n"
    pipe.close()
    process.stdin.write("\n")
    process.stdin.close()
    assert process.wait(HANG_S) == 0  # 120 would mean that Python could not flush at its exit
    assert place.read_text() == "done"


RMQ = (sys.executable, "-m", "rmq", "spark", "options")  # prints a table, and asks nobody


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_told_without_a_traceback(unbuffered: str) -> None:
    for words in ((), ("--json",)):
        with open("/dev/full", "w") as full:
            found = subprocess.run(
                [*RMQ, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                env=environment(PYTHONUNBUFFERED=unbuffered),
            )  # fmt: skip
        said = json.loads(found.stderr)["error"] if words else found.stderr.strip()
        assert found.returncode == 1
        assert said.removeprefix("rmq: ") == "standard output: No space left on device"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_none_that_is_read(closed: str) -> None:
    found = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *RMQ], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, env=environment(), check=False,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")
    assert ("OPTION" in found.stdout) is (" >&-" not in f" {closed}")
