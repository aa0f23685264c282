"""The controller over its port: what it answers to brokers and operators, and when masters change.

Goal: the codes and fields are those of Apache's controller, and nobody is master while another
replica may still acknowledge. The clock is driven where leases and silence end. Not shown here:
brokers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.controllers import NAME, Replica, controller, in_sync, seen
from support.driven_clock import DrivenClock
from support.etcd_server import etcd_server
from support.name_server import Client, in_loop

from rmq.controller import decisions
from rmq.controller.broker_set import BrokerSet
from rmq.controller.elections import SWEEP_S
from rmq.controller.leases import Leases
from rmq.controller.live_replicas import Key
from rmq.controller.server import ControllerServer
from rmq.controller.state_store import StateStoreError
from rmq.errors import ConfigError
from rmq.format.remoting import Command, decode

pytestmark = pytest.mark.still_clock


async def joined(*replicas: Replica) -> None:
    """Gives ids to all; the first becomes master, and the others are in its set."""
    for each in replicas:
        await each.join()
    assert (await replicas[0].elect()).code == 0
    ids = [each.broker_id for each in replicas]
    if len(ids) > 1:
        assert (await replicas[0].alter(ids, 1, 1)).code == 0


@asynccontextmanager
async def pair(clock: DrivenClock, folder: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    """A master and its slave, at a controller that need not wait for an earlier leader's leases."""
    async with (
        controller(folder) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
    ):
        clock.advance(5.3)
        await joined(one, two)
        yield one, two


async def until_master(replica: Replica, broker_id: int | None) -> Command:
    wanted = None if broker_id is None else str(broker_id)
    return await seen(replica.look, lambda reply: reply.fields.get("masterBrokerId") == wanted)


@asynccontextmanager
async def notices(replica: Replica) -> AsyncIterator[asyncio.Queue[Command]]:
    """Listens for the controller's notices to the replica."""
    heard: asyncio.Queue[Command] = asyncio.Queue()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        heard.put_nowait(decode(frame))
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    replica.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield heard


@in_loop
async def test_a_master_that_is_heard_of_by_two_ways_may_give_one_up(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A master that is known by two connections may close one of them. It used its controller's
    name and address at first, and then only one of them."""
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        clock.advance(5.3)
        async with Replica(server.port, 1) as one:
            await joined(one, two)
            async with Replica(server.port, 1) as way:
                way.address = one.address
                await way.beat()
            await seen(lambda: server._listener is not None and len(server._listener) == 2)
            await server.elections.replace(NAME["brokerName"])
            assert (await two.look()).fields["masterBrokerId"] == "1"
        await until_master(two, 2)


@in_loop
async def test_names_that_nobody_has_are_not_kept(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        await one.join()
        for number in range(100):
            name = {**NAME, "brokerName": f"made-up-{number}"}
            asked = await one.call(1004, **name, rmqBrokerId=1, rmqMasterEpoch=1)
            assert asked.code == 2008
        assert len(server.elections._changes) == len(server.elections._masterships) == 0
        long = await one.call(904, **NAME, brokerId=1, brokerAddr="a" * 1000)
        assert "brokerAddr" in (long.remark or "")


@in_loop
async def test_a_broker_gets_its_id_registers_and_is_elected(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        assert (await one.look()).code == 2008
        assert (await one.elect()).code == 2010
        following = await one.call(1012, **NAME)
        assert following.fields == {**NAME, "nextBrokerId": "1"}
        registered = await one.join()
        assert registered.fields == NAME and in_sync(registered) == ([], 0)
        elected = await one.elect()
        master = {"masterBrokerId": "1", "masterAddress": one.address, "masterEpoch": "1"}
        assert elected.fields == {**master, "syncStateSetEpoch": "1"}
        # Proper JSON, unlike at Apache's controller: the id is a text.
        group = {"cluster": "c", "brokerName": "broker-a", "brokerAddrs": {"1": one.address}}
        assert json.loads(elected.body) == {
            "syncStateSet": [1], "brokerMemberGroup": group, **group
        }  # fmt: skip
        async with Replica(server.port, 2) as two:
            assert (await two.join()).fields == {**NAME, **master, "syncStateSetEpoch": "1"}
            kept = await two.elect()
            assert (kept.code, kept.fields["masterBrokerId"]) == (2011, "1")
            altered = await one.alter([2, 1], 1, 1)
            assert altered.fields == {"newSyncStateSetEpoch": "2"}
            assert in_sync(altered) == ([1, 2], 2)
            looked = await two.look()
            assert looked.fields == master and in_sync(looked) == ([1, 2], 2)
            assert (await two.alter([2], 2, 1)).code == 2002


@in_loop
async def test_an_empty_replica_that_asks_first_leaves_it_to_the_one_with_a_log(
    tmp_path: Path,
) -> None:
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 1) as empty,
        Replica(server.port, 2) as whole,
    ):
        for each, end in ((empty, 0), (whole, 9000)):
            await each.join()
            await each.beat(epoch=-1, maxOffset=end)
        refused = await empty.elect()
        assert refused.code == 2012 and "[2] has more" in (refused.remark or "")
        assert (await whole.elect()).fields["masterBrokerId"] == "2"


@in_loop
async def test_what_operators_ask(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        async with Replica(server.port, 2) as two:
            await joined(one)
            await two.join()
            body = json.loads((await one.call(1006, b'["broker-a","broker-x"]')).body)
            row = {"brokerName": "broker-a", "alive": True}
            assert body == {"replicasInfoTable": {"broker-a": {
                "masterBrokerId": 1,
                "masterAddress": one.address,
                "masterEpoch": 1,
                "syncStateSetEpoch": 1,
                "inSyncReplicas": [{**row, "brokerId": 1, "brokerAddress": one.address}],
                "notInSyncReplicas": [{**row, "brokerId": 2, "brokerAddress": two.address}],
            }}}  # fmt: skip
            everything = json.loads((await one.call(1006, rmqAll=True)).body)
            assert everything == body and json.loads((await one.call(1006)).body) != body
            cleaned = {**NAME, "brokerControllerIdsToClean": "2"}
            assert (await one.call(1011, **cleaned)).code == 2009
            assert (
                await one.call(1011, **{**cleaned, "brokerControllerIdsToClean": "a"})
            ).code == 2009
            assert (await one.call(1011, **cleaned, isCleanLivingBroker=True)).code == 0
            assert (await one.call(1011, **NAME, isCleanLivingBroker=True)).code == 0
            assert (await one.look()).code == 2008
        told = (await one.call(1005)).fields
        address = f"127.0.0.1:{server.port}"
        assert told == {
            "group": "rmq",
            "controllerLeaderId": address,
            "controllerLeaderAddress": address,
            "isLeader": "true",
            "peers": f"{address}:{address};",
        }


@in_loop
async def test_settings_are_shown_and_changed(tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Client(server.port) as operator:
        assert b"enableElectUncleanMaster=false\n" in (await operator.call(1010)).body
        assert (await operator.call(1009, b"enableElectUncleanMaster=true\n")).code == 0
        assert server.elections.unclean()
        assert (await operator.call(1009, b"configStorePath=/tmp/x\n")).code == 16
        refused = await operator.call(1009, b"listenPort=1\n")
        assert refused.code == 2005 and "restart" in (refused.remark or "")
    async with controller(tmp_path) as server:
        assert server.elections.unclean()


@in_loop
async def test_a_value_of_several_lines_is_none(tmp_path: Path) -> None:
    """A value of several lines must be refused. In CVE-2023-37582 it wrote any file, by a path that
    the sender chose."""
    async with controller(tmp_path) as server, Client(server.port) as operator:
        before = sorted(tmp_path.rglob("*"))
        refused = await operator.call(1009, b"enableElectUncleanMaster=true\\nconfigStorePath=/x")
        assert refused.code != 0 and "enableElectUncleanMaster" in (refused.remark or "")
        assert not server.elections.unclean() and sorted(tmp_path.rglob("*")) == before


@in_loop
async def test_state_is_there_after_a_start(tmp_path: Path) -> None:
    patient = {"rmqLeaseMillis": 600_000}  # so long that nobody is replaced, however long it takes
    async with controller(tmp_path, **patient) as server, Replica(server.port, 1) as one:
        await joined(one)
    async with controller(tmp_path, **patient) as server, Replica(server.port, 1) as one:
        looked = await one.look()
        assert looked.fields["masterEpoch"] == "1" and in_sync(looked) == ([1], 1)


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (1013, {**NAME, "appliedBrokerId": -1, "registerCheckCode": "h:1;5"}),
        (1013, {**NAME, "appliedBrokerId": 1}),
        (1013, {"clusterName": "c", "brokerName": "a/b", "appliedBrokerId": 1,
                "registerCheckCode": "h:1;5"}),
        (1013, {"clusterName": "c", "brokerName": "b" * 300, "appliedBrokerId": 1,
                "registerCheckCode": "h:1;5"}),
        (1003, {**NAME, "brokerId": "x", "brokerAddress": "h:1"}),
        (1004, {"brokerName": ""}),
        (1004, {"brokerName": "a\nb"}),
        (1002, {**NAME, "designateElect": True}),
        (1002, {**NAME, "brokerId": -2}),
        (904, {**NAME, "brokerAddr": "h:1"}),
        (904, {**NAME, "brokerAddr": "h:1", "brokerId": 1, "heartbeatTimeoutMills": 0}),
        (904, {**NAME, "brokerAddr": "h:1", "brokerId": 1, "epoch": 2**40}),
        (1001, {"brokerName": "broker-a", "masterBrokerId": 1, "masterEpoch": 1}),
    ],
)  # fmt: skip
@in_loop
async def test_what_is_no_request_is_refused_by_name(
    tmp_path: Path, code: int, fields: dict[str, object]
) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        await joined(one)
        reply = await one.call(code, **fields)
        assert reply.code == 2005 and reply.remark
        for body in (
            b"[]",
            b'{"syncStateSet":["x"]}',
            b'{"syncStateSet":[1],"syncStateSetEpoch":-1}',
            b"\xff",
        ):
            header = {"brokerName": "broker-a", "masterBrokerId": 1, "masterEpoch": 1}
            assert (await one.call(1001, body, **header)).code == 2005
        assert (await one.call(1006, b'{"a":1}')).code == 2005
        assert (await one.call(10)).code == 3
        assert (await one.look()).code == 0


# ------------------------------------------------------------------- masters that go


@in_loop
async def test_a_master_whose_acks_need_the_set_is_replaced_when_its_connection_ends(
    tmp_path: Path,
) -> None:
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 2) as two,
        notices(two) as heard,
    ):
        async with Replica(server.port, 1) as one:
            await joined(one, two)
            assert await one.renew(1, covered=True) == 5000
            assert (await heard.get()).fields["masterEpoch"] == "1"
        told = await heard.get()
        assert told.code == 1008 and told.is_oneway
        assert told.fields == {
            "masterBrokerId": "2",
            "masterAddress": two.address,
            "masterEpoch": "2",
            "syncStateSetEpoch": "3",
        }
        assert in_sync(told) == ([2], 3)
        assert in_sync(await until_master(two, 2)) == ([2], 3)


@in_loop
async def test_another_masters_lease_ends_before_the_next_one_is_elected(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        clock.advance(5.3)  # the time in which an earlier leader's leases may still run
        async with Replica(server.port, 1) as one:
            await joined(one, two)
            assert await one.renew(1) == 5000
        await until_gone(server, 1)
        refused = await two.elect()
        assert refused.code == 2011 and "lease" in (refused.remark or "")
        clock.advance(4.9)
        await two.beat()
        assert (await two.elect()).code == 2011
        clock.advance(0.5)
        await until_master(two, 2)


async def until_gone(server: ControllerServer, broker_id: int) -> None:
    await seen(lambda: not server.live.is_alive(("c", "broker-a", broker_id)))


@in_loop
async def test_leases_of_a_leader_before_are_waited_for(clock: DrivenClock, tmp_path: Path) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        async with Replica(server.port, 1) as one:
            await joined(one, two)
        await until_gone(server, 1)
        assert (await two.elect()).code == 2011
        clock.advance(5.3)
        await two.beat()
        await until_master(two, 2)


@pytest.mark.parametrize("is_back", [True, False])
@in_loop
async def test_who_may_lack_the_newest_leads_when_nobody_comes_who_has_it(
    clock: DrivenClock, tmp_path: Path, is_back: bool
) -> None:
    """Both machines lost power; that of the old master stays away for ever, or for a minute: it was
    killed only, and what it has acknowledged is there."""
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        async with Replica(server.port, 1) as one:
            await joined(one, two)
            assert await one.renew(1, covered=True) == 5000
            await two.beat(rmqDoubted=True)
        await until_gone(server, 1)
        refused = await two.elect()
        assert refused.code == 2012 and "[1] are waited for" in (refused.remark or "")
        clock.advance(60)
        await two.beat(rmqDoubted=True)
        assert (await two.elect()).code == 2012
        if is_back:
            async with Replica(server.port, 1) as one:
                await one.beat()
                await one.elect()
                await until_master(one, 1)
            return
        clock.advance(decisions.DOUBT_S - 61)
        await two.beat(rmqDoubted=True)
        assert (await two.elect()).code == 2012
        clock.advance(2)
        await two.beat(rmqDoubted=True)
        assert (await two.elect()).code == 0
        await until_master(two, 2)


@in_loop
async def test_members_in_doubt_wait_anew_for_one_that_goes_meanwhile(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """It may have more than the others, and be back soon."""
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        async with Replica(server.port, 3) as three:
            async with Replica(server.port, 1) as one:
                await joined(one, two, three)
                assert await one.renew(1, covered=True) == 5000
                for each in (two, three):
                    await each.beat(rmqDoubted=True)
            await until_gone(server, 1)
            assert (await two.elect()).code == 2012
            clock.advance(decisions.DOUBT_S - 1)
            for each in (two, three):
                await each.beat(rmqDoubted=True)
            assert (await two.elect()).code == 2012
        await until_gone(server, 3)
        clock.advance(2)
        await two.beat(rmqDoubted=True)
        refused = await two.elect()
        assert refused.code == 2012 and "[1, 3] are waited for" in (refused.remark or "")


@in_loop
async def test_members_in_doubt_wait_anew_when_another_controller_leads(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A controller that led before does not know who was back while another one led."""
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        async with Replica(server.port, 1) as one:
            await joined(one, two)
            assert await one.renew(1, covered=True) == 5000
            await two.beat(rmqDoubted=True)
        await until_gone(server, 1)
        assert (await two.elect()).code == 2012
        clock.advance(decisions.DOUBT_S + 1)
        server.leases.begin()  # as the store does
        await two.beat(rmqDoubted=True)
        assert (await two.elect()).code == 2012
        clock.advance(decisions.DOUBT_S + 1)
        await two.beat(rmqDoubted=True)
        await two.elect()
        await until_master(two, 2)


def test_a_lease_ends_also_while_machines_are_suspended(clock: DrivenClock) -> None:
    """Its master counts that time as well."""
    leases = Leases(5000)
    leases.grant("n", 1, False, 5000)
    clock.suspend(5.2)
    assert 0 < leases.left_s("n", 1, True, 5000) < 0.1
    clock.suspend(0.1)
    assert leases.left_s("n", 1, True, 5000) == 0


@pytest.mark.parametrize("first_ms", [60_000, 5000])
@pytest.mark.parametrize("is_renewed", [False, True])
@in_loop
async def test_a_lease_that_was_longer_than_ours_is_waited_for(
    clock: DrivenClock, tmp_path: Path, first_ms: int, is_renewed: bool
) -> None:
    """A controller that is started with shorter leases must wait until a longer one that was
    granted before is over. first_ms: the lease at the time of the election. is_renewed: the master
    got a shorter lease since, for which it does not give up the longer one."""
    async with (
        controller(tmp_path, rmqLeaseMillis=first_ms) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
    ):
        await joined(one, two)
    long = {"rmqLeaseMillis": 60_000}
    async with controller(tmp_path, **long) as server, Replica(server.port, 1) as one:
        assert await one.renew(1) == 60_000
    async with controller(tmp_path) as server, Replica(server.port, 2) as two:
        if is_renewed:
            async with Replica(server.port, 1) as one:
                assert await one.renew(1) == 5000
        for _ in range(10):
            clock.advance(6)
            await two.beat()
            assert (await two.elect()).code == 2011
        clock.advance(4)
        await two.beat()
        await until_master(two, 2)
        found, _ = await server.store.read("broker-a")
        assert found is not None and found.lease_ms == 5000, "nobody waits as long for its own"


@in_loop
async def test_a_silent_master_is_replaced_and_one_that_beats_is_not(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with pair(clock, tmp_path) as (one, two):
        for _ in range(4):
            clock.advance(4)
            await one.beat()
            await two.beat()
        clock.advance(5)
        await two.beat()
        assert (await two.elect()).code == 2011
        clock.advance(5.1)
        assert (await until_master(two, 2)).fields["masterEpoch"] == "2"


@in_loop
async def test_nobody_in_sync_nobody_master_until_one_is_back(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 3) as three:
        clock.advance(5.3)
        async with Replica(server.port, 1) as one, Replica(server.port, 2) as two:
            for each in (one, two, three):
                await each.join()
            assert (await one.elect()).code == 0
            assert (await one.alter([1, 2], 1, 1)).code == 0
        reply = await until_master(three, None)
        assert (reply.fields["masterEpoch"], in_sync(reply)) == ("2", ([1, 2], 2))
        assert (await three.elect()).code == 2012
        async with Replica(server.port, 2) as two:
            await two.beat()
            assert (await two.elect()).fields["masterEpoch"] == "3"


@in_loop
async def test_an_unclean_election_waits_for_the_lease_and_takes_who_lives(
    clock: DrivenClock, tmp_path: Path
) -> None:
    settings = {"enableElectUncleanMaster": "true"}
    async with controller(tmp_path, **settings) as server, Replica(server.port, 2) as two:
        clock.advance(5.3)
        async with Replica(server.port, 1) as one:
            await joined(one)
            await two.join()
            assert await one.renew(1, covered=True) == 5000  # covers a set in which 2 is not
        await until_gone(server, 1)
        assert (await two.elect()).code == 2011
        clock.advance(5.3)
        await two.beat()
        assert (await until_master(two, 2)).fields["masterEpoch"] == "2"


@in_loop
async def test_who_resigns_is_replaced_at_once(clock: DrivenClock, tmp_path: Path) -> None:
    async with pair(clock, tmp_path) as (one, two):
        assert await one.renew(1) == 5000
        stale = {"rmqBrokerId": 1, "rmqResign": True}
        assert (await one.look(rmqMasterEpoch=0, **stale)).fields["masterBrokerId"] == "1"
        assert (await one.look(rmqMasterEpoch=1, **stale)).fields["masterBrokerId"] == "2"
        assert await one.renew(1) == 0
        assert await two.renew(2) == 5000


@in_loop
async def test_who_resigns_may_say_meanwhile_that_it_lives(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that resigns must be replaced even if its heartbeat comes meanwhile: a restarted
    master sends one each second. Here the store answers after that heartbeat."""
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
        Replica(server.port, 1) as beating,
    ):
        clock.advance(5.3)
        await joined(one, two)
        assert await one.renew(1) == 5000
        read = server.store.read

        async def read_slowly(name: str) -> tuple[BrokerSet | None, int]:
            await beating.beat()
            return await read(name)

        monkeypatch.setattr(server.store, "read", read_slowly)
        after = await one.look(rmqBrokerId=1, rmqMasterEpoch=1, rmqResign=True)
        assert (after.fields["masterBrokerId"], after.fields["masterEpoch"]) == ("2", "2")


@in_loop
async def test_an_election_that_the_store_may_yet_make_ends_where_the_old_master_goes_on(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An election whose write timed out, but may still be stored, must come to nothing if the old
    master goes on. Here it is stored when the old master has asked for its lease again."""
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
    ):
        clock.advance(5.3)
        await joined(one, two)
        write = server.store.write
        late: list[tuple[str, BrokerSet | None, int]] = []
        written: list[BrokerSet | None] = []
        is_slow = True

        async def write_late(name: str, after: BrokerSet | None, revision: int) -> bool:
            if is_slow:
                late.append((name, after, revision))
                raise StateStoreError("etcd does not answer")
            written.append(after)
            return await write(name, after, revision)

        monkeypatch.setattr(server.store, "write", write_late)
        clock.advance(10.5)  # 1 is silent, and its lease is over
        await two.beat()
        assert (await two.elect()).code == 1
        assert late and all(after is not None and after.master_id == 2 for _, after, _ in late)
        await one.beat()
        assert await one.renew(1) == 0, "nor while it cannot be written that it is master"
        is_slow = False
        assert await one.renew(1) == 5000
        for each in late:
            assert not await write(*each)
        assert await two.renew(2) == 0
        assert await one.renew(1) == 5000 and len(written) == 1, "once is enough"
        is_slow = True
        assert (await one.alter([1], 2, 1)).code == 1
        assert await one.renew(1) == 5000, "whatever becomes of that, it is master"


@in_loop
async def test_what_was_read_before_a_late_election_proves_nothing_whatever_is_written_after_it(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that was read before a late election must not count, whatever was written after the
    election. The old master asks for its lease, the election that timed out is stored, a replica is
    registered, and only then comes what was read first."""
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
    ):
        clock.advance(5.3)
        await joined(one, two)
        read, write = server.store.read, server.store.write
        late: list[tuple[str, BrokerSet | None, int]] = []
        is_read, go_on = asyncio.Event(), asyncio.Event()

        async def write_late(name: str, after: BrokerSet | None, revision: int) -> bool:
            late.append((name, after, revision))
            raise StateStoreError("etcd does not answer")

        async def read_late(name: str) -> tuple[BrokerSet | None, int]:
            found = await read(name)
            if not is_read.is_set():
                is_read.set()
                await go_on.wait()
            return found

        monkeypatch.setattr(server.store, "write", write_late)
        clock.advance(10.5)  # 1 is silent, and its lease is over
        await two.beat()
        assert (await two.elect()).code == 1
        monkeypatch.setattr(server.store, "write", write)
        await one.beat()
        monkeypatch.setattr(server.store, "read", read_late)
        renewed = asyncio.create_task(one.renew(1))
        await is_read.wait()
        assert await write(*late[0])
        name, other = late[0][0], "127.0.0.1:9"
        decision, _ = await server.elections.change(
            name, lambda found: decisions.register(found, "c", 1, other)
        )
        assert decision.changes
        go_on.set()
        assert await renewed == 0
        assert await two.renew(2) == 5000


@in_loop
async def test_one_look_at_all_masters_at_a_time(
    clock: DrivenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second look at all masters must not begin while the first one waits, however long the store
    takes."""
    async with controller(tmp_path) as server:
        looks: list[asyncio.Event] = []
        scans = 0
        expire = server.live.expire

        async def names() -> list[str]:
            looks.append(asyncio.Event())
            await looks[-1].wait()
            return []

        def scan() -> list[Key]:
            nonlocal scans
            scans += 1
            return expire()

        async def some_seconds() -> None:
            for _ in range(4):
                before = scans
                clock.advance(SWEEP_S + 1.0)
                await seen(lambda: scans > before)  # noqa: B023

        monkeypatch.setattr(server.store, "names", names)
        monkeypatch.setattr(server.live, "expire", scan)
        await some_seconds()
        assert len(looks) == 1
        looks[0].set()
        await some_seconds()
        assert len(looks) == 2
        looks[1].set()


@pytest.mark.parametrize("covered", [True, False])
@in_loop
async def test_another_master_is_designated(
    clock: DrivenClock, tmp_path: Path, covered: bool
) -> None:
    """The new master must lead at once if no acknowledgement counts without its own (covered);
    otherwise only when the present master's lease is over."""
    async with pair(clock, tmp_path) as (one, two):
        assert await one.renew(1, covered=covered) == 5000
        if not covered:
            assert (await two.elect(designateElect=True, rmqAtOnce=True)).code == 2011
            assert await one.renew(1) == 5000, "it keeps its lease"
        answer = await two.elect(designateElect=True, rmqAtOnce=covered)
        assert answer.code == (0 if covered else 2011)
        assert await one.renew(1, covered=covered) == 0
        if not covered:
            assert (await two.look()).fields["masterBrokerId"] == "1"
            clock.advance(5.3)
            await one.beat()
            await two.beat()
        assert (await until_master(two, 2)).fields["masterEpoch"] == "2"


@in_loop
async def test_a_designated_one_that_dies_leaves_the_present_one_its_lease(
    clock: DrivenClock, tmp_path: Path
) -> None:
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        clock.advance(5.3)
        async with Replica(server.port, 2) as two:
            await joined(one, two)
            assert await one.renew(1) == 5000
            assert (await two.elect(designateElect=True)).code == 2011
            assert await one.renew(1) == 0
        await until_gone(server, 2)
        clock.advance(5.3)
        await one.beat()
        await seen(lambda: one.renew(1))
        assert (await one.look()).fields["masterEpoch"] == "1"


# ------------------------------------------------------------------- several controllers


@in_loop
async def test_the_next_leader_knows_the_sets_and_who_lives(tmp_path: Path) -> None:
    with etcd_server(tmp_path) as etcd:
        # Longer than a busy machine takes to renew a lease.
        where = {"rmqEtcd": etcd.endpoint, "rmqLeaseMillis": 3000}
        async with (
            controller(tmp_path / "2", **where, rmqControllerName="n2") as second,
            controller(tmp_path / "1", **where, rmqControllerName="n1") as first,
        ):
            assert second.store.is_leader()
            async with Replica(first.port, 1) as one, Replica(second.port, 1) as also_one:
                refused = await one.look()
                assert refused.code == 2007
                leader = (await one.call(1005)).fields
                assert leader["controllerLeaderAddress"] == f"127.0.0.1:{second.port}"
                assert leader["isLeader"] == "false"
                assert leader["peers"].count(";") == 2
                async with Replica(second.port, 2) as two, Replica(first.port, 2) as also_two:
                    await joined(also_one, two)
                    await one.beat()  # at every controller
                    await also_two.beat()
                    await second.stop()
                    reply = await seen(also_two.look, lambda each: each.code != 2007)
                    assert reply.fields["masterBrokerId"] == "1"
                    assert (await also_two.elect()).code == 2011
                    await one.__aexit__()
                    assert (await until_master(also_two, 2)).fields["masterEpoch"] == "2"


@in_loop
async def test_settings_that_cannot_be(tmp_path: Path) -> None:
    for wrong in ({"rmqEtcd": "h1:2379"}, {"rmqEtcd": "http://h", "rmqControllerGroup": "a/b"}):
        with pytest.raises(ConfigError):
            async with controller(tmp_path, **wrong):
                pass


@in_loop
async def test_who_asks_for_a_lease_is_told_that_there_is_none(tmp_path: Path) -> None:
    """A master's question for a lease must be answered with 0 if there is none. RocketMQ's
    controller, which grants no leases, leaves the field out; brokers tell the two apart by that."""
    async with (
        controller(tmp_path) as server,
        Replica(server.port, 1) as one,
        Replica(server.port, 2) as two,
    ):
        await joined(one, two)
        looked = await two.look(rmqBrokerId=2, rmqMasterEpoch=1)
        assert looked.fields["rmqLeaseMillis"] == "0"
        assert "rmqLeaseMillis" not in (await two.look()).fields


@in_loop
async def test_the_same_set_gets_a_new_epoch(tmp_path: Path) -> None:
    """A repeated set must get a new epoch if that is asked for, so that questions with the former
    epoch that are still on their way have no effect."""
    async with controller(tmp_path) as server, Replica(server.port, 1) as one:
        await joined(one)
        assert (await one.alter([1], 1, 1)).code == 2013
        again = await one.alter([1], 1, 1, rmqNewEpoch=True)
        assert again.code == 0 and in_sync(again) == ([1], 2)
        repeated = await one.alter([1], 1, 1, rmqNewEpoch=True)  # as if the first answer was lost
        assert repeated.code == 0 and in_sync(repeated) == ([1], 2)
        assert (await one.alter([1], 0, 1, rmqNewEpoch=True)).code == 2001
