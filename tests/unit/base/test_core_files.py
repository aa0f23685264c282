"""A process that has passwords leaves no core file.

Method: processes that end by abort(). Where this machine writes no core files anyway, that shows
nothing, so the kernel is asked as well.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rmq.auth.guard import Guard
from rmq.config import load_properties

PROGRAM = """
import ctypes, os, resource
from rmq.base import core_files
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
core_files.leave_none()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)  # PR_GET_DUMPABLE
os.abort()
"""


def test_a_crash_leaves_no_core_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "0\n", done.stderr
    assert done.returncode == -signal.SIGABRT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "leaves_none"),
    [
        ({}, False),
        ({"tls.server.certPath": "/c", "tls.server.keyPath": "/k"}, True),
        ({"innerClientAuthenticationCredentials": '{"accessKey":"a","secretKey":"s"}'}, True),
        ({"rmqMetricsCredentials": '{"username":"prom","password":"p"}'}, True),
        ({"tls.server.certPath": "/c", "tls.server.keyPath": "/k", "rmqCoreFiles": "true"}, False),
    ],
)
def test_who_has_something_to_hide_leaves_none(
    settings: dict[str, str], leaves_none: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[None]()
    monkeypatch.setattr("rmq.base.core_files.leave_none", lambda: asked.append(None))
    Guard(load_properties(None, settings), tmp_path, "c").open()
    assert bool(asked) == leaves_none
