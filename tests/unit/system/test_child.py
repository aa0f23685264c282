"""Goal: what a Child reports of its end is true at once.

Method: real processes. Not shown here: that they end with their parent (tests/process/test_demo).
"""

from __future__ import annotations

import sys
from pathlib import Path

from rmq.system.child import Child

# How long it takes to end grows with the memory it has touched, so a kill alone is not seen at
# once.
CODE = """
import signal
held = bytearray(1 << 26)
print("one is ready now", flush=True)
signal.pause()
"""


def test_what_was_killed_has_died(tmp_path: Path) -> None:
    """After kill() the child must be dead: the demo checks next whether everything is calm, and its
    master must be missing then."""
    child = Child("one", [sys.executable, "-c", CODE], tmp_path)
    child.start()
    child.wait_ready(60)
    assert not child.died()
    child.kill()
    assert child.died() and child.pid is None
    assert not child.died()  # reported only once
    child.stop()
