"""Commands of rmq, and children of rmq/system/child.py, that are forked as servers are
(rmq_process.py): each interpreter that is not started saves the reading of all modules.

    done = run_rmq("takeover", "--from", address)       # as subprocess.run does, in a process
    done.returncode, done.stdout, done.stderr

    with forked_children():
        DemoCluster(tmp_path / "cluster", 3).start(print)

Without a child's death with its parent: those of tests are ended when pytest does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from support.rmq_process import AnyProcess, start_rmq
from support.waiting import HANG_S

from rmq.system import child

OURS = [sys.executable, "-m", "rmq"]


def run_rmq(
    *words: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """It has nothing to read. One that takes too long is killed: subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start_rmq(words, stdout=out, stderr=err, cwd=cwd, environment=environment)
        try:
            code = process.wait(HANG_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


@contextmanager
def forked_children() -> Iterator[None]:
    """In the block; what is no command of ours is started as ever."""
    stand_in = SimpleNamespace(
        Popen=_started, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired
    )
    with patch.object(child, "subprocess", stand_in):
        yield


def _started(
    command: Sequence[str], *, stdout: IO[bytes], stderr: IO[bytes], **given: Any
) -> AnyProcess | subprocess.Popen[bytes]:
    if list(command[:3]) != OURS:
        return subprocess.Popen(command, stdout=stdout, stderr=stderr, **given)
    return start_rmq(command[3:], stdout=stdout, stderr=stderr, in_child=os.setsid)
