"""One broker for a store: a second one is told which process holds it; a dead process holds
nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from rmq.errors import StoreError, StoreLockedError
from rmq.node.store_lock import StoreLock

HOLD = """
import sys
from pathlib import Path
from rmq.node.store_lock import StoreLock
lock = StoreLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_second_holder_is_told_pid_and_command_of_the_first(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLockedError) as caught:
            StoreLock(tmp_path)
        assert f"is held by process {holder.pid} (" in str(caught.value)
        assert f"Stop it with `kill {holder.pid}`" in str(caught.value)
        assert (tmp_path / "lock").read_bytes() == b"lock"
        holder.kill()
        holder.wait()
    StoreLock(tmp_path).release()


def test_release_lets_the_next_one_in(tmp_path: Path) -> None:
    for _ in range(2):
        StoreLock(tmp_path / "new" / "store").release()


def test_unusable_directory_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"not a directory.*--store DIR"):
        StoreLock(tmp_path / "file" / "store")
