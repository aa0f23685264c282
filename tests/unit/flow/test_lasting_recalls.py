"""Recalls outlive a stop, a kill and a damaged file in the second before their message is due.

A recall is due up to a second before its message, and is passed then: after this only what the
broker has kept of the recall stops the message. A kill is a copy of the running broker's store.
"""

import shutil
from pathlib import Path

import pytest
from support import driven_clock
from support.broker_client import BrokerClient
from support.live_broker import live_broker, records, served
from support.name_server import in_loop
from support.store_copies import copy_store
from support.waiting import pass_seconds, until

from rmq.base import clock
from rmq.broker.broker import Broker
from rmq.format.message import encode_properties

# Waits end at once: the clock jumps ahead.
pytestmark = [pytest.mark.usefixtures("clock"), pytest.mark.still_clock]


def now_ms() -> int:
    return int(clock.wall() * 1000)


def at(due_ms: int, **more: str) -> str:
    return encode_properties({"TIMER_DELIVER_MS": str(due_ms), **more}).decode()


def bodies(broker: Broker) -> list[bytes]:
    return [message.body for message in records(broker, "t")]


async def send_and_recall(client: BrokerClient, due_ms: int) -> None:
    """Sends a timed message and recalls it. The recall is due 999 ms before the message if `due_ms`
    is a whole second."""
    sent = await client.send("t", b"recalled", i=at(due_ms, UNIQ_KEY="U"))
    handle = sent.fields["recallHandle"]
    assert (await client.call(370, producerGroup="P", topic="t", recallHandle=handle)).code == 0


async def pass_until(broker: Broker, time_ms: int) -> None:
    while (left := time_ms - now_ms()) > 0:
        await pass_seconds(broker.core, left / 1000)


def copy_as_killed(live: Path, killed: Path) -> None:
    """Copies the running store. Temporary files, which may vanish at any moment, are left out."""
    copy_store(live, killed, ignore=shutil.ignore_patterns("*.tmp", "*.new", "*.pinned"))


async def goes_on_without(directory: Path, due_ms: int, *came: bytes) -> None:
    """A broker that goes on with this store must not deliver the recalled message when it is due.
    `came`: the bodies that were delivered already."""
    async with live_broker(directory) as broker:
        await pass_until(broker, due_ms + 300)
        await until(lambda: is_recalled(broker) or len(bodies(broker)) > len(came))
        assert bodies(broker) == list(came)
        assert is_recalled(broker)


def is_recalled(broker: Broker) -> bool:
    return broker.core.stats()["timers_recalled"] == 1


@in_loop
async def test_a_stop_forgets_no_recall_that_is_passed(tmp_path: Path) -> None:
    due = (now_ms() // 1000 + 5) * 1000
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        await send_and_recall(client, due)
        await pass_until(broker, due - 500)
    await goes_on_without(tmp_path, due, b"make")


@in_loop
async def test_two_stops_forget_no_recall_that_is_passed(tmp_path: Path) -> None:
    """The second broker knows the recall from a file, and the third one from the same file."""
    due = (now_ms() // 1000 + 5) * 1000
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        await send_and_recall(client, due)
        await client.send("t", b"other", i=at(due - 700))
        await pass_until(broker, due - 600)
        assert bodies(broker) == [b"make", b"other"]
    async with live_broker(tmp_path) as broker:
        await pass_until(broker, due - 300)
    await goes_on_without(tmp_path, due, b"make", b"other")


@in_loop
async def test_a_kill_forgets_no_recall_that_is_passed(tmp_path: Path) -> None:
    """Another message is delivered between the recall and its message, so the stored position is
    behind the recall."""
    live, killed = tmp_path / "live", tmp_path / "killed"
    due = (now_ms() // 1000 + 5) * 1000
    async with served(live, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        await send_and_recall(client, due)
        await client.send("t", b"other", i=at(due - 700))
        await pass_until(broker, due - 600)
        assert bodies(broker) == [b"make", b"other"]
        copy_as_killed(live, killed)
    await goes_on_without(killed, due, b"make", b"other")


@in_loop
async def test_a_seal_takes_the_recalls_along_that_are_passed(tmp_path: Path) -> None:
    """After a minute what was fed to the timers is sealed into files and no longer read from the
    queue: the files must have the recall."""
    live, killed = tmp_path / "live", tmp_path / "killed"
    async with served(live, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        driven_clock.pass_some_time((1500 - now_ms() % 1000) % 1000 / 1000)
        # Due in 60.5 s; the seal comes in 60.0 s, the recall in 59.5 s.
        due = (now_ms() // 1000 + 61) * 1000
        await send_and_recall(client, due)
        await client.send("t", b"other", i=at(due - 700))
        driven_clock.pass_some_time(58)
        await pass_until(broker, due - 300)
        assert bodies(broker) == [b"make", b"other"]
        broker.core.sync_log()
        await until(lambda: broker.core.stats()["timers_covers"] == 2 * 3, still=True)
        copy_as_killed(live, killed)
    await goes_on_without(killed, due, b"make", b"other")


@in_loop
async def test_timers_that_are_made_anew_forget_no_recall_that_is_passed(tmp_path: Path) -> None:
    """Timers are made anew after a damaged file, and by a new master."""
    due = (now_ms() // 1000 + 5) * 1000
    async with served(tmp_path, recallMessageEnable=True) as (broker, client):
        await client.send("t", b"make")
        await send_and_recall(client, due)
        await client.send("t", b"other", i=at(due - 700))
        await pass_until(broker, due - 600)
        broker.core.restart_timers()
        await pass_until(broker, due + 300)
        await until(lambda: is_recalled(broker) or len(bodies(broker)) > 2)
        assert bodies(broker) == [b"make", b"other"]
        assert is_recalled(broker)
