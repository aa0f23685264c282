"""Where the controller keeps its broker sets: in a file, or in etcd.

Goal: what was written is there after a start, nobody overwrites what it has not read, and only the
leader reads and writes. With a real etcd. Not shown here: what a power cut leaves of the file
(tests/unit/base), and etcd's own faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from support.controllers import seen
from support.driven_clock import DrivenClock
from support.etcd_server import EtcdServer, etcd_server
from support.name_server import in_loop
from support.slow_answers import slow_answers
from support.waiting import until

from rmq.controller import etcd as etcd_steps
from rmq.controller.broker_set import BrokerSet, Replica
from rmq.controller.etcd import Etcd
from rmq.controller.etcd_store import RENEW_S, EtcdStore
from rmq.controller.file_store import FileStore
from rmq.controller.state_store import Controller, NotLeaderError, StateStore, StateStoreError
from rmq.errors import StoreCorruptError

ONE = BrokerSet("c", "broker-a", {1: Replica("h:1", "h:1;5")}, 2)
TWO = msgspec.structs.replace(ONE, master_id=1, master_epoch=1, sync_state_set=frozenset((1,)))
FIRST, SECOND = Controller("n1", "h1:9878"), Controller("n2", "h2:9878")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with ExitStack() as stack:
        yield stack.enter_context(etcd_server(tmp_path_factory.mktemp("etcd")))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer leases, so that nobody loses the lead when the disk, and with it etcd, is busy for
    some seconds."""
    monkeypatch.setattr("rmq.controller.etcd_store.LEASE_S", 60)


def etcd_store(etcd: EtcdServer, group: str, led: list[str] | None = None) -> EtcdStore:
    note = (lambda: led.append(group)) if led is not None else (lambda: None)
    return EtcdStore(Etcd((etcd.endpoint,), timeout_s=30), group, note)


async def exercise(store: StateStore, again: StateStore) -> None:
    await store.start(FIRST)
    await seen(store.is_leader)
    assert await store.read("broker-a") == (None, 0)
    assert await store.leader() == FIRST and await store.members() == [FIRST]
    assert await store.write("broker-a", ONE, 0)
    assert not await store.write("broker-a", TWO, 0)  # because it was written meanwhile
    found, revision = await store.read("broker-a")
    assert found == ONE
    assert await store.write("broker-a", TWO, revision)
    assert not await store.write("broker-a", ONE, revision)
    other = msgspec.structs.replace(ONE, name="broker-b")
    assert await store.write("broker-b", other, 0)
    assert await store.names() == ["broker-a", "broker-b"]
    _, revision = await store.read("broker-b")
    assert await store.write("broker-b", None, revision)
    assert await store.read("broker-b") == (None, 0)
    await store.stop()
    await again.start(FIRST)
    await seen(again.is_leader)
    found, revision = await again.read("broker-a")
    assert found == TWO and await again.names() == ["broker-a"]
    assert await again.write("broker-a", None, revision)
    await again.stop()


@in_loop
async def test_a_file_keeps_what_was_written(tmp_path: Path) -> None:
    await exercise(FileStore(tmp_path), FileStore(tmp_path))


@in_loop
async def test_etcd_keeps_what_was_written(etcd: EtcdServer) -> None:
    await exercise(etcd_store(etcd, "keeps"), etcd_store(etcd, "keeps"))


@in_loop
async def test_a_damaged_or_older_file_stops_the_start(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.start(FIRST)
    assert await store.write("broker-a", ONE, 0)
    file = tmp_path / "controller.json"
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"h:1", b"h:2"))
    with pytest.raises(StoreCorruptError, match="epoch"):
        await FileStore(tmp_path).start(FIRST)
    for wrong in (b'{"revision": -1}', b'{"brokers": {"broker-a": {"cluster": 1}}}',
                  b'{"revision": 1, "brokers": {"b": ' + ONE.encode() + b"}}"):  # fmt: skip
        file.write_bytes(wrong)
        with pytest.raises(StoreCorruptError):
            await FileStore(tmp_path).start(FIRST)


@in_loop
async def test_after_a_failed_write_nothing_is_decided(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    await store.start(FIRST)
    assert await store.write("broker-a", ONE, 0)
    (tmp_path / "controller.json.tmp").mkdir()  # so that the next save fails
    for _ in range(2):
        with pytest.raises(StateStoreError, match="cannot be written"):
            await store.write("broker-a", TWO, 1)
    with pytest.raises(StateStoreError):
        await store.read("broker-a")


@in_loop
async def test_of_two_controllers_one_leads_and_the_other_follows_it(etcd: EtcdServer) -> None:
    led: list[str] = []
    first, second = etcd_store(etcd, "two", led), etcd_store(etcd, "two", led)
    await first.start(FIRST)
    await second.start(SECOND)
    assert first.is_leader() and not second.is_leader() and led == ["two"]
    assert await second.leader() == FIRST
    assert await second.members() == [FIRST, SECOND]
    await seen(first.members, lambda members: members == [FIRST, SECOND])
    with pytest.raises(NotLeaderError):
        await second.read("broker-a")
    with pytest.raises(NotLeaderError):
        await second.write("broker-a", ONE, 0)
    assert await first.write("broker-a", ONE, 0)
    await first.stop()
    await seen(second.is_leader)
    assert led == ["two", "two"]
    assert await second.leader() == SECOND
    assert (await second.read("broker-a"))[0] == ONE
    await second.stop()


@in_loop
async def test_who_lost_the_lead_without_knowing_reads_and_writes_nothing(
    clock: DrivenClock, etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq.controller.etcd_store.RENEW_S", 2.0)  # so that it seldom looks
    store = etcd_store(etcd, "lost")
    await store.start(FIRST)
    assert await store.write("broker-a", ONE, 0)
    client = Etcd((etcd.endpoint,), timeout_s=30)
    key = b"/rmq/lost/leader"
    other = b'{"name":"n2","address":"h2:9878"}'
    for asks in (store.read("broker-a"), store.write("broker-a", TWO, 0)):
        # As if its lease had ended, and another one had been faster.
        await client.transaction([], [etcd_steps.delete(key)])
        await client.transaction([], [etcd_steps.put(key, other)])
        with pytest.raises(NotLeaderError):
            await asks
        assert not store.is_leader()
        await client.transaction([], [etcd_steps.delete(key)])
        await until(store.is_leader)
    assert (await store.read("broker-a"))[0] == ONE
    await store.stop()
    await client.close()


@pytest.mark.parametrize("asks", ["read", "write"])
@in_loop
async def test_what_was_asked_under_an_earlier_lead_is_no_answer(
    clock: DrivenClock, etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """An answer to what was asked under an earlier lead must not count: it was true then, but
    others may have led and granted leases before this controller led again."""
    led: list[str] = []
    store = etcd_store(etcd, f"again-{asks}", led)
    await store.start(FIRST)
    client = Etcd((etcd.endpoint,), timeout_s=30)
    real = store._etcd.transaction

    async def answer_late(*asked: list[etcd_steps.Step]) -> etcd_steps.Result:
        result = await real(*asked)
        await client.transaction([], [etcd_steps.delete(f"/rmq/again-{asks}/leader".encode())])
        await until(lambda: len(led) == 2)
        return result

    monkeypatch.setattr(store._etcd, "transaction", answer_late)
    with pytest.raises(NotLeaderError):
        await (store.read("b") if asks == "read" else store.write("broker-a", ONE, 0))
    assert store.is_leader()
    await client.close()
    await store.stop()


@pytest.mark.still_clock
@in_loop
async def test_many_questions_keep_nobody_from_keeping_the_lead(
    clock: DrivenClock, etcd: EtcdServer
) -> None:
    """The lease must be renewed even while more questions than connections wait for a slow etcd."""
    async with slow_answers(etcd.endpoint) as way:
        store = EtcdStore(Etcd((way.endpoint,), timeout_s=60), "many", lambda: None)
        await store.start(FIRST)
        way.late_s = 30.0
        way.asked.clear()
        reads = [asyncio.ensure_future(store.read(f"broker-{n}")) for n in range(120)]
        await seen(lambda: sum(map(len, way.asked.values())) >= 100)
        clock.advance(RENEW_S)
        await seen(lambda: any(body.startswith(b'{"ID"') for body in way.asked))
        assert not any(each.done() for each in reads)
        for each in reads:
            each.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
        way.late_s = 0.0
        await store.stop()


@in_loop
async def test_an_etcd_that_stands_still_is_an_error_and_then_no_lead(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmq.controller.etcd_store.LEASE_S", 5)
    with etcd_server(tmp_path) as server:
        store = EtcdStore(Etcd((server.endpoint,), timeout_s=3.0), "still", lambda: None)
        await store.start(FIRST)
        assert await store.write("broker-a", ONE, 0)
        server.pause()
        with pytest.raises(StateStoreError, match="etcd does not answer"), clock.passing():
            await store.read("broker-a")
        await until(lambda: not store.is_leader())
        server.go_on()
        await seen(store.is_leader)
        assert (await store.read("broker-a"))[0] == ONE
        await store.stop()


@in_loop
async def test_a_lease_that_ends_before_it_is_used_does_not_stop_the_start(
    etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may end before it is used, if etcd is so slow on a busy machine. The start must then
    try again."""
    granted: list[int] = []

    async def grant(self: Etcd, seconds: int) -> int:
        lease = await real(self, seconds)
        granted.append(lease)
        if len(granted) <= 2:
            await self.revoke(lease)
        return lease

    real = Etcd.grant
    monkeypatch.setattr(Etcd, "grant", grant)
    store = etcd_store(etcd, "slow")
    await store.start(FIRST)
    try:
        assert len(granted) == 3 and store.is_leader()
    finally:
        await store.stop()


@in_loop
async def test_another_endpoint_is_asked_when_one_does_not_answer(etcd: EtcdServer) -> None:
    client = Etcd(("http://127.0.0.1:1", etcd.endpoint), timeout_s=30)
    result = await client.transaction([], [etcd_steps.get(b"nothing")])
    assert result.succeeded and result.found == [[]]
    lease = await client.grant(60)
    assert await client.keep_alive(lease)
    await client.revoke(lease)
    assert not await client.keep_alive(lease)
    await client.close()


@in_loop
async def test_what_is_no_broker_set_in_etcd_is_named_by_its_key(etcd: EtcdServer) -> None:
    store = etcd_store(etcd, "strange")
    await store.start(FIRST)
    client = Etcd((etcd.endpoint,), timeout_s=30)
    for strange in (b"{}", ONE.encode()):
        await client.transaction([], [etcd_steps.put(b"/rmq/strange/brokers/b", strange)])
        with pytest.raises(StoreCorruptError, match="/rmq/strange/brokers/b"):
            await store.read("b")
    await client.close()
    await store.stop()
