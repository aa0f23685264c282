"""Tree process: a Python program of this tree in a process of its own, run to its end.

It imports the modules of this tree, whatever its folder is and whatever is installed.

    done = run_python("bench/run.py", "--quick")
    done.returncode, done.stdout
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.source_tree import ROOT
from support.waiting import HANG_S


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), **more}


def bare_pytest() -> dict[str, str]:
    """The environment for runs of pytest in tests of pytest: without plugins, except those that are
    named with -p."""
    return environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def run_python(*words: object, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd, env=environment(), capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
