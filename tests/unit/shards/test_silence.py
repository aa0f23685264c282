"""Goal: the supervisor kills a shard that says nothing for long, unless there is a reason: its log
is opened anew, or its reactor waits for a disk. Method: a real supervisor whose shards are other
processes, on a driven clock; the test hands it what shards say. With real shards: tests/process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.disk_wait import disk_wait
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import until

from rmq.base import clock as rmq_clock
from rmq.config import load_properties
from rmq.system.threads import Thread
from rmq.system.topology import read_topology
from shards import shard as states
from shards.bus_router import Peer
from shards.messages import BusError, Failed, Hello
from shards.placement import place
from shards.shard import Shard
from shards.shards_file import ShardsFile, ShardsState
from shards.supervisor import REOPEN_S, Supervisor

pytestmark = pytest.mark.still_clock
LONG_S = 31.0  # longer than rmqShardSilentSeconds


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def signals_sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The signals for shards from now on, which are noted and not sent."""
    sent: list[int] = []
    monkeypatch.setattr(Shard, "signal", lambda _, number: sent.append(number))
    return sent


class Stage:
    """Shard 1 is the process with this pid, which has said hello and serves."""

    def __init__(self, store: Path, clock: DrivenClock, pid: int) -> None:
        values = {"storePathRootDir": str(store), "listenPort": "0"}
        settings = load_properties(None, values)
        self.clock = clock
        self.supervisor = Supervisor(settings, place(settings, 2, read_topology(), bind=False))
        self.shard = self.supervisor.shards[1]
        self.shard._watch(pid)
        self.shard.state = states.STARTING
        hello = Hello(1, "", pid, "b-1", 4711, 0, "")
        self.peer = Peer(b"1", hello, rmq_clock.monotonic(), pid=pid)
        assert self.supervisor._on_hello(hello) == ""
        self.supervisor.router._shards[1] = self.peer
        self.supervisor._on_ready(1, True)
        assert self.shard.state == states.SERVING

    def after(self, seconds: float) -> str:
        """Its state after nothing was heard of it for so long."""
        self.clock.advance(seconds)
        for _ in range(2):  # the first look shows that it is silent
            self.supervisor._check_silence(self.shard)
        return self.shard.state


@asynccontextmanager
async def stage(store: Path, clock: DrivenClock, pid: int) -> AsyncIterator[Stage]:
    made = Stage(store, clock, pid)
    try:
        yield made
    finally:
        made.shard.unwatch()
        await made.supervisor.stop()


@in_loop
async def test_one_that_says_nothing_for_long_is_killed(
    clock: DrivenClock, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    async with stage(tmp_path, clock, sleeper.pid) as on:
        assert on.after(5.0) == states.SILENT
        assert sleeper.poll() is None
        on.after(LONG_S)
        await until(lambda: sleeper.poll() is not None, still=True)


@in_loop
async def test_one_whose_log_is_opened_anew_is_waited_for(
    clock: DrivenClock, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    async with stage(tmp_path, clock, sleeper.pid) as on:
        on.supervisor._on_ready(1, False)
        for _ in range(5):
            assert on.after(LONG_S) == states.REOPENING
        assert on.shard.status().reason == f"its log is opened anew for {int(5 * LONG_S)} s"
        with pytest.raises(BusError, match="opens its log anew"):
            await on.supervisor.drain(on.shard, on=True)
        assert on.after(LONG_S) == states.REOPENING and not on.shard.drain
        assert sleeper.poll() is None
        on.peer.beat_at = rmq_clock.monotonic()
        on.supervisor._on_ready(1, True)
        assert (on.shard.state, on.shard.reason) == (states.SERVING, "")
        on.after(LONG_S)
        await until(lambda: sleeper.poll() is not None, still=True)


@in_loop
async def test_one_whose_reactor_waits_for_a_disk_is_left_alone(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with disk_wait(tmp_path, "rmq-reactor") as pid:
        async with stage(tmp_path / "store", clock, pid) as on:
            assert on.after(5.0) == on.after(LONG_S) == on.after(LONG_S) == states.SILENT
            assert "its reactor waits for a disk" in on.shard.reason
            assert states.start_ticks(pid) is not None
            on.peer.beat_at = rmq_clock.monotonic()
            assert on.after(0.0) == states.SERVING


@in_loop
async def test_one_whose_disk_has_just_answered_has_time_to_say_so(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shard whose disk has just answered must get time: its beats come only after the work that
    has piled up, and a slow disk may let go of it for a moment between two calls."""
    found = Thread("D")
    monkeypatch.setattr("shards.shard.named_thread", lambda pid, name: found)
    async with stage(tmp_path, clock, sleeper.pid) as on:
        assert on.after(5.0) == on.after(40.0) == states.SILENT
        for _ in range(3):
            found = Thread("S")
            on.after(29.0)
            found = Thread("D")
            on.after(0.5)
        found = Thread("S")
        on.after(29.0)
        killed = signals_sent(monkeypatch)
        on.after(0.0)
        assert killed == []
        on.after(1.5)
        assert killed[:1] == [signal.SIGKILL]


@in_loop
async def test_one_that_says_nothing_and_calls_the_disk_now_and_then_is_killed(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shard whose reactor serves and uses the disk, but whose event loop hangs, must be
    killed."""
    ticks = iter(range(1000))
    monkeypatch.setattr("shards.shard.named_thread", lambda *_: Thread("D", "", next(ticks)))
    async with stage(tmp_path, clock, sleeper.pid) as on:
        killed = signals_sent(monkeypatch)
        assert on.after(5.0) == states.SILENT  # the looks begin here
        on.after(LONG_S)
        assert signal.SIGKILL in killed


@in_loop
async def test_one_that_opens_its_log_for_ever_is_killed(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage(tmp_path, clock, sleeper.pid) as on:
        killed = signals_sent(monkeypatch)
        on.supervisor._on_ready(1, False)
        assert on.after(REOPEN_S - 1) == states.REOPENING and killed == []
        on.after(2.0)
        assert signal.SIGKILL in killed


@in_loop
async def test_one_that_takes_its_time_to_stop_is_restarted_and_has_not_crashed(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor must it be taken, while it stops, for a serving shard that can be drained."""
    started: list[int] = []
    monkeypatch.setattr(Supervisor, "_start", lambda _, shard: started.append(shard.index))
    async with stage(tmp_path, clock, sleeper.pid) as on:
        sent = signals_sent(monkeypatch)
        on.supervisor.router._shards.clear()  # so that it is not asked
        on.supervisor.restart(on.shard)
        await on.supervisor.drain(on.shard, on=True)
        on.supervisor.router._shards[1] = on.peer
        assert on.after(20.0) == states.STOPPING and sent == [signal.SIGTERM]
        on.after(LONG_S)
        assert signal.SIGKILL in sent
        sleeper.kill()
        on.supervisor._on_end(on.shard)
        assert (started, on.shard.reason) == ([1], "restarted on request")
        assert not on.shard.crashes and not on.shard.failures


@in_loop
async def test_a_drain_that_the_shard_refuses_is_an_error(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object) -> Failed:
        return Failed("it is on the black list")

    async with stage(tmp_path, clock, sleeper.pid) as on:
        monkeypatch.setattr(on.supervisor.router, "ask", refuse)
        with pytest.raises(BusError, match="on the black list"):
            await on.supervisor.drain(on.shard, on=True)


@in_loop
async def test_a_shard_counts_before_clients_find_it(
    clock: DrivenClock,
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shard may join only when its number is saved in the file. It registers with name servers
    only after that (test_bus_siblings.py)."""
    file, save = ShardsFile(tmp_path), ShardsFile.save
    failures = [OSError(28, "No space left on device")]

    def save_later(self: ShardsFile, state: ShardsState) -> None:
        if failures:
            raise failures.pop()
        save(self, state)

    async with stage(tmp_path, clock, sleeper.pid) as on:
        on.supervisor._present = 1  # it has never been here
        on.supervisor.save()
        monkeypatch.setattr(ShardsFile, "save", save_later)
        assert "No space left" in on.supervisor._on_hello(on.peer.hello)
        assert file.count(None) == 1
        assert on.supervisor._on_hello(on.peer.hello) == ""
        assert file.count(None) == 2


@in_loop
async def test_a_shard_counts_when_it_has_served(
    clock: DrivenClock, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    """A start with fewer shards than have served must be refused, but not one with fewer than were
    once asked for and could not start."""
    file = ShardsFile(tmp_path)
    assert file.count(None) == 1
    async with stage(tmp_path, clock, sleeper.pid) as on:
        assert file.count(None) == 2
        on.shard.drain = True
        on.supervisor.save()
        assert file.load().drained == (1,)
        on.shard.unwatch()
        await on.supervisor.remove(on.shard)
        assert file.count(1) == 1


@in_loop
async def test_one_that_ends_while_it_opens_its_log_is_started_as_after_a_crash(
    clock: DrivenClock, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    async with stage(tmp_path, clock, sleeper.pid) as on:
        on.clock.advance(60)
        on.supervisor._on_ready(1, False)
        sleeper.kill()
        on.shard.ended(on.supervisor._directory)
        assert on.shard.failures == 0  # because it had served
