"""The bus between a router and links, over real sockets in one process: joining, changes, healing.

What is lost is lost on purpose: frames are taken away before the link sees them. The owners are
plain dictionaries; what the broker's tables do with items is in test_bus_siblings.py. A process of
another user is only imitated, because the tests have one user.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zmq
from support.driven_clock import DrivenClock
from support.name_server import in_loop
from support.waiting import until

from shards import bus_router as router_module
from shards.bus_client import BusClient
from shards.bus_files import BusDirectory
from shards.bus_router import BusRouter
from shards.messages import (
    TOPIC,
    BusError,
    Change,
    Changed,
    Done,
    Failed,
    Hello,
    Item,
    Known,
    Message,
    News,
    Pulse,
    Stamp,
    Stats,
    Sync,
    decode,
    encode,
    expect,
)

JOIN_S = 60.0
ANSWER_S = 86_400.0  # so long that no answer is late, whatever time a test lets pass


class Owner:
    """A shard whose tables are a dictionary."""

    def __init__(self, index: int, token: str) -> None:
        self.index, self.token = index, token
        self.table: dict[tuple[str, str], Item] = {}
        self.taken = 0
        self.asleep: asyncio.Event | None = None  # told() waits for it, if set

    def hello(self) -> Hello:
        return Hello(self.index, self.token, os.getpid(), f"b-{self.index}", 1, 0, "")

    def welcome(self, counter: int) -> None: ...

    def known(self) -> list[Known]:
        return [Known(item.kind, item.name, item.stamp) for item in self.table.values()]

    def items(self, wanted: list[Known]) -> list[Item]:
        return [self.table[each.kind, each.name] for each in wanted]

    def take(self, items: list[Item]) -> None:
        self.taken += len(items)
        for item in items:
            present = self.table.get((item.kind, item.name))
            if present is None or item.stamp > present.stamp:
                self.table[item.kind, item.name] = item

    async def registered(self) -> None:
        if self.asleep is not None:
            await self.asleep.wait()

    async def answer(self, message: Message) -> Message:
        if isinstance(message, Stats):
            raise BusError("no numbers today")
        return Done(f"shard {self.index}")


class Bus:
    def __init__(self, store: Path) -> None:
        self.directory = BusDirectory(store, make=True)
        self.token = self.directory.new_token()
        self.store = store
        self.owners: list[Owner] = []
        self.links: list[BusClient] = []
        self.ready: list[tuple[int, bool]] = []  # the reports of shards
        self.new_hub()

    def new_hub(self) -> None:
        async def command(message: Message) -> Message:
            return Done(type(message).__name__)

        self.router = BusRouter(
            self.directory,
            self.token,
            lambda hello: "",
            lambda index, serving: self.ready.append((index, serving)),
            command,
        )
        self.router.start()

    async def join(self, count: int) -> None:
        for index in range(count):
            self.owners.append(Owner(index, self.token))
            self.links.append(BusClient(BusDirectory(self.store), self.owners[-1], index))
            self.links[-1].start()
        for link in self.links:
            assert await link.wait_joined(JOIN_S)
        # the hub does not wait for links before it has heard Applied of them
        await until(lambda: all(not peer.late for peer in self.router._shards.values()))

    async def change(self, index: int, name: str, counter: int) -> Changed:
        item = Item(TOPIC, name, Stamp(counter, index), b"{}")
        self.owners[index].take([item])
        return expect(await self.links[index].request(Change([item]), ANSWER_S), Changed)


@asynccontextmanager
async def bus(store: Path, count: int) -> AsyncIterator[Bus]:
    made = Bus(store)
    try:
        await made.join(count)
        yield made
    finally:
        for link in made.links:
            await link.stop()
        await made.router.stop()


def run(work: object) -> None:
    asyncio.run(asyncio.wait_for(work, 120))  # type: ignore[arg-type]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """So long that nobody is late, however busy the machine is."""
    monkeypatch.setattr(router_module, "CHANGE_WAIT_S", 20.0)


@pytest.mark.usefixtures("patient")
def test_change_stands_in_all_tables_when_it_is_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 3) as made:
            answer = await made.change(1, "t", 5)
            assert sorted(answer.applied) == [0, 2]
            assert all((TOPIC, "t") in owner.table for owner in made.owners)

    run(work())


def test_shard_that_joins_later_gets_everything_and_brings_what_it_has(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 1) as made:
            await made.change(0, "t", 5)
            late = Owner(1, made.token)
            late.take([Item(TOPIC, "mine", Stamp(3, 1), b"{}")])
            link = BusClient(BusDirectory(tmp_path), late, 1)
            link.start()
            made.links.append(link)
            assert await link.wait_joined(JOIN_S)
            assert {name for _, name in late.table} == {"t", "mine"}
            await until(lambda: (TOPIC, "mine") in made.owners[0].table)

    run(work())


def test_lost_news_are_asked_for_when_the_next_ones_come(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 2) as made:
            socket, lost = made.links[1]._news, []
            take, socket._take = socket._take, lost.append
            await made.change(0, "lost", 5)
            await until(lambda: any(isinstance(decode(body), News) for _, body in lost))
            assert (TOPIC, "lost") not in made.owners[1].table
            socket._take = take
            await until(lambda: (TOPIC, "lost") in made.owners[1].table)
            assert made.links[1].seq == made.router.seq

    run(work())


@pytest.mark.usefixtures("patient")
def test_news_that_come_twice_or_of_the_past_are_taken_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 2) as made:
            await made.change(0, "t", 5)
            taken = made.owners[1].taken
            again = News(made.router.epoch, made.router.seq, [Item(TOPIC, "t", Stamp(5, 0), b"{}")])
            for _ in range(3):
                made.router._publish(again)
            await made.change(0, "u", 6)
            assert made.owners[1].taken == taken + 1
            assert made.links[1].syncs == 1

    run(work())


@in_loop
async def test_slow_shard_costs_one_change_a_moment_and_the_next_ones_nothing(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_module, "CHANGE_WAIT_S", 3600.0)
    async with bus(tmp_path, 3) as made:
        made.owners[2].asleep = asyncio.Event()
        first = asyncio.create_task(made.change(0, "t5", 5))
        await until(lambda: made.router._shards[1].applied == made.router.seq == 1)
        assert not first.done()
        clock.advance(3600)
        assert 2 in (await first).late
        for counter in range(6, 15):  # for these nobody lets another hour pass
            assert 2 in (await made.change(0, f"t{counter}", counter)).late
        made.owners[2].asleep.set()
        await until(lambda: not made.router._shards[2].late)
        assert 2 in (await made.change(0, "caught up", 99)).applied


def test_links_join_a_new_supervisor_and_tell_it_what_happened_meanwhile(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 2) as made:
            await made.change(0, "before", 5)
            await made.router.stop()
            made.owners[0].take([Item(TOPIC, "alone", Stamp(9, 0), b"{}")])
            with pytest.raises(BusError, match="does not answer"):
                await made.links[0].request(Change([]), 0.1)
            made.new_hub()
            await until(lambda: (TOPIC, "alone") in made.owners[1].table)
            assert len(made.router.registry) == 2

    run(work())


def test_shards_answer_questions_and_failures_come_as_reasons(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 2) as made:
            assert await made.router.ask(1, Sync([]), 5) == Done("shard 1")
            assert await made.router.ask(0, Stats(), 5) == Failed("no numbers today")
            with pytest.raises(BusError, match="shard 7 is not on the bus"):
                await made.router.ask(7, Stats(), 5)

    run(work())


def test_who_does_not_know_the_token_is_not_heard(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 1) as made:
            stranger = Owner(5, "x" * 43)
            link = BusClient(BusDirectory(tmp_path), stranger, 5)
            link.start()
            made.links.append(link)
            refused = await link.request(stranger.hello())
            assert refused == Failed("wrong token: this is another start of the broker")
            lie = Item(TOPIC, "lie", Stamp(99, 5), b"{}")
            assert await link.request(Change([lie])) == Failed("say Hello first")
            assert made.router.registry.get(TOPIC, "lie") is None
            await made.change(0, "t", 5)
            # What is sent to a link's own token comes after all else, and is all that it gets.
            made.router._news.send([stranger.token.encode(), encode(Pulse(7, 1))])
            await until(lambda: link._pulse_epoch == 7)
            assert not stranger.table

    run(work())


@pytest.mark.usefixtures("patient")
def test_garbage_on_the_socket_harms_nobody(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path, 2) as made:
            context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
            raw = context.socket(zmq.DEALER)
            raw.setsockopt(zmq.LINGER, 0)
            raw.connect(made.directory.address("requests"))
            number = b"Q" + bytes(8)
            for frames in (
                [b""], [b"x"], [b"Q", b"x"], [number, b""], [number, b"\x01\xff"],
                [b"Z" + bytes(8), encode(Stats())], [number, encode(Stats()), b"more"],
                [b"A" + bytes(8), encode(Stats())], [b"N", encode(Stats())],
            ):  # fmt: skip
                raw.send_multipart(frames)
            await until(lambda: made.router.refused >= 6)
            assert (await made.change(0, "t", 5)).applied == [1]
            raw.close()
            context.term()

    run(work())


def test_process_of_another_user_is_not_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel says which user connects: the router waits for user + 1 here, so this process is a
    stranger."""

    async def work() -> None:
        directory = BusDirectory(tmp_path, make=True)
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        made = Bus.__new__(Bus)
        made.directory, made.token = directory, directory.new_token()
        made.new_hub()
        link = BusClient(directory, Owner(0, made.token), 0)
        link.start()
        assert not await link.wait_joined(0.5)
        assert made.router.refused == 0
        await link.stop()
        await made.router.stop()

    run(work())


def test_directory_is_for_one_user_alone(tmp_path: Path) -> None:
    (tmp_path / "bus").mkdir(mode=0o755)
    directory = BusDirectory(tmp_path, make=True)
    assert (tmp_path / "bus").stat().st_mode & 0o777 == 0o700
    token = directory.new_token()
    assert (tmp_path / "bus/token").stat().st_mode & 0o777 == 0o600
    assert directory.token() == token != directory.new_token()
    directory.close()


def test_directory_that_is_a_link_or_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BusError, match="No such file"):
        BusDirectory(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bus").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BusError):
        BusDirectory(tmp_path, make=True)


def test_paths_longer_than_a_socket_may_have_work(tmp_path: Path) -> None:
    async def work() -> None:
        async with bus(tmp_path / ("x" * 120), 1) as made:
            assert (await made.change(0, "t", 5)).late == []

    (tmp_path / ("x" * 120)).mkdir()
    run(work())
