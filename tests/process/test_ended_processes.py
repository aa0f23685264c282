"""Processes that tests start end with the tests, and no others do: commands that take too long,
shards of a machine that is started again and again (support/forked_commands.py,
managed_machine.py).
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support import forked_commands
from support.forked_commands import run_rmq
from support.managed_machine import ManagedMachine
from support.rmq_process import AnyProcess, start_rmq
from support.sharded_broker import ShardedBroker, is_shard
from support.waiting import HANG_S, wait_until

from shards.shard import PidFile, start_ticks


def test_a_command_that_takes_too_long_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[AnyProcess] = []

    def start(*given: Any, **more: Any) -> AnyProcess:
        started.append(start_rmq(*given, **more))
        return started[-1]

    monkeypatch.setattr(forked_commands, "start_rmq", start)
    monkeypatch.setattr(forked_commands, "HANG_S", 0.0)
    with pytest.raises(subprocess.TimeoutExpired):
        run_rmq("namesrv", "--port", 0, cwd=tmp_path)
    assert started[0].poll() == -signal.SIGKILL


@pytest.fixture
def shard() -> Iterator[subprocess.Popen[bytes]]:
    """A process with the command line of a shard."""
    words = ["sh", "-c", "read line", "shards.shard_process"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        wait_until(lambda: is_shard(process.pid))  # its words are there a moment later
        yield process
        process.kill()


def test_a_shard_of_another_machine_is_left_alone(
    tmp_path: Path, shard: subprocess.Popen[bytes]
) -> None:
    """A pid file names a process that has ended, and a shard of another machine has its number now.
    That shard must not be killed: it has another start time."""
    machine = ManagedMachine(tmp_path)
    bus = machine.store / "bus"
    bus.mkdir(parents=True)
    ticks = start_ticks(shard.pid)
    assert ticks is not None

    def note(started: int) -> None:
        content = msgspec.json.encode(PidFile(shard.pid, started, "d"))
        (bus / "shard-0.pid").write_bytes(content)

    note(ticks - 1)
    assert machine.pid("shard-0") == 0
    machine.end()
    assert shard.poll() is None
    note(ticks)
    assert machine.pid("shard-0") == shard.pid
    machine.end()
    assert shard.wait(HANG_S) == -signal.SIGKILL


def test_so_it_is_by_a_machine_that_nobody_starts_again(shard: subprocess.Popen[bytes]) -> None:
    """ShardedBroker, too, kills a process only if it has the start time that was seen before."""
    machine: Any = object.__new__(ShardedBroker)
    machine.process = SimpleNamespace(poll=lambda: 0, stdout=None)
    machine.seen = set()
    machine.ask = lambda *_: SimpleNamespace(
        shards=[SimpleNamespace(pid=shard.pid), SimpleNamespace(pid=0)]
    )
    machine.shards()
    ticks = start_ticks(shard.pid)
    assert ticks is not None and machine.seen == {(shard.pid, ticks)}
    machine.seen = {(shard.pid, ticks - 1)}
    machine.end()
    assert shard.poll() is None
    machine.shards()
    machine.end()
    assert shard.wait(HANG_S) == -signal.SIGKILL
