"""Goal: an invariant that does not hold ends the process and says which one, and with which values.

Method: a child process in which a caller of the commit log breaks a rule; and the header itself,
compiled with and without RMQ_DEBUG. Not shown here: that every invariant is checked.
"""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.waiting import HANG_S

BROKEN_CALLER = """
import sys
from cext.store.log.commit_log import CommitLog
from cext.testing.store_probe import log_append
log = CommitLog(sys.argv[1], 1 << 20, 1 << 20)
log.load()
log.set_end(0)
print(log_append(log, b"x" * 96, 96), flush=True)
log_append(log, b"x" * 120, 96)
print("went on", flush=True)
"""

HEADER = """
#include "check.h"
static int asked;
static int holds(void) { asked++; return 0; }
int main(void)
{
    rmq_check(1, "what holds", 1, 2);
    rmq_debug_check(holds(), "what a debug build looks at", -1, INT64_MAX);
    return asked;
}
"""


def test_a_broken_invariant_ends_the_process_with_its_text_and_values(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_CALLER, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGABRT
    assert done.stdout == "0\n"
    line = "broken invariant: the log: more bytes than were reserved (120, 96); the process ends"
    assert done.stderr.splitlines()[0] == f"rmq: {line}"


@pytest.mark.parametrize("flags", [["-DRMQ_DEBUG=1"], ["-DNDEBUG"]])
def test_a_debug_check_is_there_in_a_debug_build_only(tmp_path: Path, flags: list[str]) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path / "checked"
    subprocess.run(
        [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", *flags, "-Icext/c",
         "-o", str(program), "-x", "c", "-"],
        input=HEADER, cwd=ROOT, text=True, check=True, timeout=HANG_S,
    )  # fmt: skip
    done = subprocess.run([program], capture_output=True, text=True, timeout=HANG_S)
    if flags == ["-DNDEBUG"]:
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == -signal.SIGABRT
    assert "what a debug build looks at (-1, 9223372036854775807)" in done.stderr
