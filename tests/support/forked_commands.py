"""Forked commands: commands of rmq, and children of rmq/system/child.py and rmq/pytest_plugin.py,
forked as servers are (rmq_process.py), which saves the import of all modules each time.

    done = run_rmq("takeover", "--from", address)       # like subprocess.run
    done.returncode, done.stdout, done.stderr

    with forked_children():
        DemoCluster(tmp_path / "cluster", 3).start(print)

    with forked_broker(directory, settings) as broker:  # embedded_broker of the plugin

Unlike other children, these do not die with their parent: they are killed when pytest ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from support.rmq_process import BEGAN_WITH, AnyProcess, start_rmq
from support.waiting import HANG_S

from rmq import pytest_plugin
from rmq.pytest_plugin import RunningBroker, embedded_broker
from rmq.system import child

OURS = [sys.executable, "-m", "rmq"]


def run_rmq(
    *words: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command with an empty input. If it takes too long, it is killed:
    subprocess.TimeoutExpired."""
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
def forked_children(starter: ModuleType = child) -> Iterator[None]:
    """Forks the children that are started in the block, if they are commands of rmq. Other programs
    are started as usual."""
    stand_in = SimpleNamespace(
        Popen=_started, DEVNULL=subprocess.DEVNULL, PIPE=subprocess.PIPE,
        TimeoutExpired=subprocess.TimeoutExpired,
    )  # fmt: skip
    with patch.object(starter, "subprocess", stand_in):
        yield


@contextmanager
def forked_broker(
    directory: Path, settings: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Iterator[RunningBroker]:
    """embedded_broker with a forked broker. environment: variables on top of this process's."""
    with ExitStack() as stack:
        with forked_children(pytest_plugin), patch.dict(os.environ, environment or {}):
            broker = stack.enter_context(embedded_broker(directory, settings))
        yield broker


def _started(
    command: Sequence[str], *, stdout: IO[bytes] | int, stderr: IO[bytes],
    env: Mapping[str, str] | None = None, start_new_session: bool = False, **given: Any,
) -> AnyProcess | subprocess.Popen[bytes]:  # fmt: skip
    if list(command[:3]) != OURS:
        return subprocess.Popen(
            command, stdout=stdout, stderr=stderr, env=env, start_new_session=start_new_session,
            **given,
        )  # fmt: skip
    # A fork has imported its modules, so another PYTHONPATH does not matter.
    paths = {"PYTHONPATH": BEGAN_WITH["PYTHONPATH"]} if "PYTHONPATH" in BEGAN_WITH else {}
    kept = {key: value for key, value in (env or os.environ).items() if key != "PYTHONPATH"}
    return start_rmq(
        command[3:], stdout=None if isinstance(stdout, int) else stdout, stderr=stderr,
        environment={**kept, **paths}, in_child=os.setsid if start_new_session else None,
    )  # fmt: skip
