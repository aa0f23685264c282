"""Goal: one broker serves at a time. Changes of the log come one after the other, only the newest
of the waiting ones is carried out, and a failed one ends the process.

Method: changes that the test holds at a gate, instead of the cut itself, which
tests/unit/flow/test_truncation.py and tests/ha show with stores.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_core import FakeCore
from support.name_server import in_loop
from support.waiting import until

from rmq.broker.reactor_watch import ReactorWatch
from rmq.errors import StoreError
from rmq.node.served_broker import STUCK, ServedBroker


class Named:
    """A broker as ServedBroker sees it."""

    replication = SimpleNamespace(begin_log=None)

    def __init__(self, name: str, said: list[str]) -> None:
        self.name, self._said = name, said
        self.reactor_watch = ReactorWatch(FakeCore().reactor_turn, 20)

    async def start(self) -> None:
        self._said.append(f"start {self.name}")

    async def stop(self) -> None:
        self._said.append(f"stop {self.name}")


class World:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.gate = asyncio.Event()
        self.stop = asyncio.Event()
        self.fails = False
        first: Any = Named("first", self.said)

        def prepare(broker: Any) -> None:
            self.said.append(f"prepare {broker.name}")

        self.served = ServedBroker(first, self.stop, prepare, lambda: self.said.append("serves"))

    async def change(self, broker: Any, offset: int, prepare: Callable[[Any], None]) -> Any:
        self.said.append(f"change at {offset}")
        await self.gate.wait()
        if self.fails:
            raise StoreError("the disk is full")
        fresh = Named(f"of {offset}", self.said)
        prepare(fresh)
        await fresh.start()
        return fresh

    def ask(self, offset: int) -> None:
        self.served._replace(self.change, offset)


STARTED = ["prepare first", "start first", "serves"]


HANGING = """
import asyncio, logging, threading
from rmq.node.served_broker import ServedBroker
class Hanging(logging.Handler):
    def emit(self, record): threading.Event().wait()
logging.getLogger().addHandler(Hanging())
def leave(why):
    print(why, flush=True)
    threading.Event().wait({seconds})
ServedBroker(None, asyncio.Event(), leave_reason=leave)._end_process("stuck")
"""


@pytest.mark.parametrize("seconds", [0, None])
def test_a_process_ends_whether_store_and_log_take_the_reason_or_not(seconds: int | None) -> None:
    script = HANGING.format(seconds=seconds)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (STUCK, "stuck\n")


@in_loop
async def test_who_takes_its_place_is_said_to_serve_as_well() -> None:
    """The broker that takes the place must be reported as serving, too, so that a supervisor that
    comes later knows it."""
    world = World()
    await world.served.start()
    assert world.said == STARTED
    world.gate.set()
    world.ask(5)
    await until(lambda: world.said[-1] == "serves" and len(world.said) > 3)
    assert world.said[3:] == ["change at 5", "prepare of 5", "start of 5", "serves"]
    await world.served.stop()
    assert world.said[-1] == "stop of 5" and not world.stop.is_set()


@in_loop
async def test_of_what_is_asked_for_meanwhile_the_newest_counts() -> None:
    world = World()
    await world.served.start()
    for offset in (5, 6, 7):
        world.ask(offset)
        await asyncio.sleep(0)
    world.gate.set()
    await until(lambda: world.said.count("serves") == 3)
    changes = [each for each in world.said if each.startswith("change")]
    assert changes == ["change at 5", "change at 7"]


@in_loop
async def test_a_change_that_fails_ends_the_process() -> None:
    world = World()
    await world.served.start()
    world.fails = True
    world.gate.set()
    world.ask(5)
    world.ask(6)
    await asyncio.wait_for(world.stop.wait(), 600)
    with pytest.raises(StoreError, match="a change of the log failed: the disk is full"):
        await world.served.stop()
    assert world.said.count("serves") == 1 and "stop first" not in world.said


@in_loop
async def test_a_stop_waits_for_what_has_begun_and_begins_nothing() -> None:
    world = World()
    await world.served.start()
    world.ask(5)
    await until(lambda: world.said[-1] == "change at 5")
    stopping = asyncio.ensure_future(world.served.stop())
    await asyncio.sleep(0)
    world.ask(6)
    assert not stopping.done()
    world.gate.set()
    await stopping
    assert world.said[3:] == [
        "change at 5", "prepare of 5", "start of 5", "serves", "stop of 5"]  # fmt: skip
