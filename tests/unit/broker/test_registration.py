"""Registration at name servers, over real sockets with rmq's own name server."""

import asyncio
import json
import logging
import threading
import zlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.calm_clock import calm_seconds
from support.driven_clock import DrivenClock
from support.fake_core import control
from support.name_server import Client, in_loop, name_server
from support.scripted_peer import ScriptedPeer
from support.unwritable import not_saved
from support.waiting import HANG_S, until_is

from rmq.broker import siblings
from rmq.broker.broker import Broker
from rmq.broker.registration import registration
from rmq.broker.registration.registration_body import RegistrationBody
from rmq.broker.tables.queue_mapping import LogicQueueItem, QueueMapping
from rmq.broker.tables.topic_config import TopicConfig
from rmq.demo.ports import free_port
from rmq.errors import StoreError
from rmq.format.remoting import Command
from rmq.limits import FRAME_BYTES_MAX
from rmq.namesrv.registration import read
from rmq.namesrv.server import NameServer
from rmq.serving.remoting_client import CallError, parse_address

REQUEST_CODE_NOT_SUPPORTED = 3


@pytest.fixture(autouse=True)
def _patient_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A started broker is registered: it waits for the first attempt as long as needed, because
    each name server here answers, or refuses at once."""
    monkeypatch.setattr(registration, "FIRST_ATTEMPT_S", HANG_S)


async def route(client: Client, topic: str, present: bool = True) -> dict:
    """The route of a topic, as soon as the name server has it (or no longer has it)."""
    reply = await until_is(
        lambda: client.call(105, topic=topic), lambda reply: (reply.code == 0) == present,
        still=True,
    )  # fmt: skip
    return json.loads(reply.body) if present else {}


@in_loop
async def test_the_broker_is_known_at_once_and_gone_when_it_stops(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        async with control(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}"):
            found = await route(client, "TBW102")
            assert found["queueDatas"][0]["perm"] == 7
            assert found["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:26911"}
        assert (await client.call(105, topic="TBW102")).code == 17


def watched_tables(broker: Broker) -> list[object]:
    """Collects the versions of the whole tables that are registered from now on."""
    versions: list[object] = []
    plain = broker.registration.register_command

    def register_command(version: Mapping[str, int]) -> Command:
        versions.append(version)
        return plain(version)

    broker.registration.register_command = register_command
    return versions


@in_loop
async def test_new_topics_are_told_at_once_at_every_name_server(tmp_path: Path) -> None:
    for single in (True, False):
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(name_server()) for _ in range(2)]
            clients = [await stack.enter_async_context(Client(s.port)) for s in servers]
            addresses = ";".join(f"127.0.0.1:{server.port}" for server in servers)
            broker = await stack.enter_async_context(
                control(tmp_path / str(single), namesrvAddr=addresses,
                        enableSingleTopicRegister=single)
            )  # fmt: skip
            for client in clients:
                await route(client, "TBW102")
            whole = watched_tables(broker)
            topics = [TopicConfig(f"t{n}", 2, 2) for n in range(20)]
            await asyncio.gather(*(broker.topics.create(topic) for topic in topics))
            for client in clients:
                for topic in topics:
                    found = await route(client, topic.name)
                    assert found["queueDatas"][0]["writeQueueNums"] == 2
            if single:
                assert whole == []
            else:
                assert 2 <= len(whole) <= 8  # 20 topics, 2 name servers: registered in bulk


class Scripted(ScriptedPeer):
    """A name server that accepts everything, and keeps the tables and single topics in their
    order."""

    def __init__(self, single_code: int = 0) -> None:
        def register(request: Command) -> Command:
            wrapper = json.loads(request.body)["topicConfigSerializeWrapper"]
            table = wrapper["topicConfigTable"]
            self.told.append((tuple(wrapper["dataVersion"].values()), table))
            return request.reply()

        def single(request: Command) -> Command:
            if single_code == 0:
                (row,) = json.loads(request.body)["queueDatas"]
                self.told.append((request.fields["topic"], row))
            return request.reply(single_code)

        self.told: list[tuple[Any, dict[str, Any]]] = []
        super().__init__({103: register, 104: lambda request: request.reply(), 217: single})


@pytest.mark.parametrize(
    ("single", "code"), [(False, 0), (True, REQUEST_CODE_NOT_SUPPORTED)], ids=["off", "unknown"]
)
def test_a_change_is_told_with_the_whole_table_and_a_version_of_its_own(
    tmp_path: Path, single: bool, code: int
) -> None:
    """Without registration of single topics, each change must come with the whole table and a new
    version. Otherwise a name server with deleteTopicWithBrokerRegistration forgets all other
    topics."""

    @in_loop
    async def work() -> None:
        with Scripted(code) as peer:
            async with control(
                tmp_path, namesrvAddr=peer.address, enableSingleTopicRegister=single
            ) as broker:
                changes = [TopicConfig(f"t{n % 3}", 1 + n, 1 + n) for n in range(9)]
                await asyncio.gather(*(broker.topics.update(change) for change in changes[:3]))
                for change in changes[3:]:
                    await broker.topics.update(change)
                await broker.topics.delete("t0")
                assert set(broker.topics.all()) == set(peer.told[-1][1])
                assert peer.told[-1][1]["t2"]["writeQueueNums"] == 9
                assert "TBW102" in peer.told[-1][1]
        versions = [version for version, _ in peer.told]
        assert len(set(versions)) == len(versions)
        assert versions == sorted(versions, key=lambda version: version[0])
        assert all("TBW102" in table for _, table in peer.told)

    work()


@in_loop
async def test_single_topics_leave_the_version_as_it_is_and_deletions_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration of a single topic must not change the table's version, so that what an
    operator changed at the name server (wipeWritePerm) stays there. A deletion must change it."""
    monkeypatch.setattr(registration.Registration, "period_s", 0.02)
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address) as broker:
            before = peer.told[0][0]
            for n in (1, 2):
                await broker.topics.update(TopicConfig("t", n, n))
                alone = [row for name, row in peer.told if name == "t"]
                assert alone[-1] == {
                    "brokerName": "broker-a", "perm": 6, "readQueueNums": n, "topicSysFlag": 0,
                    "writeQueueNums": n,
                }  # fmt: skip
            count = len(peer.told)
            await broker.core.until(lambda: len(peer.told) > count)
            assert (peer.told[-1][0], peer.told[-1][1]["t"]["writeQueueNums"]) == (before, 2)
            await broker.topics.delete("t")
            assert "t" not in peer.told[-1][1]
            assert peer.told[-1][0] != before


@in_loop
async def test_a_broker_whose_topics_keep_changing_is_not_taken_for_silent(
    clock: DrivenClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While topics keep changing, the broker must still send its whole table in time: a single
    topic is no sign of life to a name server, which waits 120 s for one."""
    caplog.set_level(logging.INFO)
    async with name_server() as server, Client(server.port) as client:
        looks = watched_looks(server)
        async with control(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}") as broker:
            for n in range(20):
                await broker.topics.update(TopicConfig(f"t{n}", 1, 1))
                looks.clear()
                clock.advance(20)
                await broker.core.until(lambda: looks != [])
                assert (await client.call(105, topic="TBW102")).code == 0
        assert "leaves: unregistered" in caplog.text and "leaves: silent" not in caplog.text


def watched_looks(server: NameServer) -> list[None]:
    """Collects one entry for each look of the name server for silent brokers, from now on."""
    looks: list[None] = []
    plain = server.tables.expire

    def expire() -> list[object]:
        found = plain()
        looks.append(None)
        return found

    server.tables.expire = expire
    return looks


@in_loop
async def test_who_had_the_name_before_may_unregister_late(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """A broker must register again soon if an earlier one of the same name unregisters late.
    RocketMQ 4 does so long after it has closed its port. By then `rmq takeover` has started the new
    broker, which the name server then drops."""
    async with (
        name_server() as server,
        Client(server.port) as client,
        control(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}") as broker,
    ):
        for seconds in (1.1, 2.1, 4.1):
            reply = await client.call(104, **broker.registration.identity())
            assert reply.code == 0
            await route(client, "TBW102", present=False)
            clock.advance(seconds)
            await route(client, "TBW102")


@in_loop
async def test_the_sign_of_life_waits_for_no_end_of_changes(
    clock: DrivenClock, tmp_path: Path
) -> None:
    with Scripted() as peer:
        given = {"namesrvAddr": peer.address, "registerNameServerPeriod": 10_000}
        async with control(tmp_path, **given) as broker:
            loop, plain = asyncio.get_running_loop(), peer.answers[217]

            def single(request: Command) -> Command | bytes | None:
                """Reports the next change before it answers for this one, which takes 12 s."""
                loop.call_soon_threadsafe(broker.registration.changed, {"TBW102"})
                clock.advance(12)
                return plain(request)

            peer.answers[217] = single
            broker.registration.changed({"TBW102"})
            await broker.core.until(lambda: len(peer.requests) > 20)
            peer.answers[217] = plain
        codes = [request.code for request in peer.requests[1:20]]
        assert codes == [217, 103] * 9 + [217]


@in_loop
async def test_name_servers_hear_of_no_topic_that_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic, or a change of one, that cannot be saved must not be registered, neither at once nor
    with the whole table. Until it can be saved, the topic's last saved form is registered."""
    monkeypatch.setattr(registration.Registration, "period_s", 0.02)
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address) as broker:
            await broker.topics.update(TopicConfig("old", 1, 1))
            with not_saved(tmp_path):
                for topic in (TopicConfig("new", 1, 1), TopicConfig("old", 2, 2)):
                    with pytest.raises(StoreError, match="cannot be written"):
                        await broker.topics.update(topic)
                count = len(peer.told)
                await broker.core.until(lambda: len(peer.told) > count + 2)
                assert "new" not in {name for name, _ in peer.told}
                for _, table in peer.told[count:]:
                    assert "new" not in table
                    assert table["old"]["writeQueueNums"] == 1
            broker.journal.tidy()
            await broker.core.until(lambda: "new" in {name for name, _ in peer.told})
            await broker.core.until(lambda: peer.told[-1][1].get("old"))
            assert peer.told[-1][1]["old"]["writeQueueNums"] == 2


@in_loop
async def test_a_slave_tells_its_topics_with_the_whole_table_alone(tmp_path: Path) -> None:
    """A slave must register its topics only with its whole table: a registration of a single topic
    (217) does not say who sends it, and would count as the master's."""
    role = {"brokerRole": "SLAVE", "brokerId": 1, "rmqMasterAddress": f"127.0.0.1:{free_port()}"}
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address, **role) as broker:
            topics = {**broker.topics.all(), "t": TopicConfig("t", 1, 1)}
            await broker.topics.copy(topics, 0)
            await broker.core.until(lambda: "t" in peer.told[-1][1])
        assert {request.code for request in peer.requests} == {103, 104}
        assert all(request.fields["brokerId"] == "1" for request in peer.requests)


@in_loop
async def test_a_table_too_large_for_one_frame_of_json_stays_in_the_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration.Registration, "period_s", 0.02)
    topics = [TopicConfig(f"{number:05}".rjust(120, "t"), 4, 4) for number in range(45_000)]
    plain = RegistrationBody({}, {}, {topic.name: topic for topic in topics}, {}).json()
    assert len(plain) > FRAME_BYTES_MAX
    async with name_server() as server, Client(server.port) as client:
        address = f"127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=address) as broker:
            tables = watched_tables(broker)
            await broker.topics.update(*topics)
            await route(client, topics[-1].name)
            count = len(tables)
            await broker.core.until(lambda: len(tables) > count + 1)
            assert (await client.call(105, topic=topics[-1].name)).code == 0
            assert broker.registration.registered() == [address]


@in_loop
async def test_a_table_that_fits_into_no_frame_is_not_sent_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "FRAME_BYTES_MAX", registration.HEADER_BYTES + 10)
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address) as broker:
            await broker.core.until(lambda: "delete topics that nobody uses" in caplog.text)
            assert f"the table of {len(broker.topics)} topics" in caplog.text
        assert peer.requests == []


@in_loop
async def test_the_table_is_compressed_where_that_is_set(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        address = f"127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=address, compressedRegister=True) as broker:
            assert (await route(client, "TBW102"))["queueDatas"][0]["perm"] == 7
            command = broker.registration.register_command(broker.registration.version())
            assert (command.fields["compressed"], command.body[:1]) == ("true", b"\x78")


def test_the_compressed_table_says_what_the_plain_one_does() -> None:
    described = TopicConfig("t", 3, 5, 4, attributes={"+note": "two words"})
    topics = {topic.name: topic for topic in (described, TopicConfig("static", 2, 2))}
    item = LogicQueueItem(queue_id=1, bname="broker-a")
    mapping = QueueMapping("static", "broker-a", 2, epoch=7, hosted_queues={0: (item,)})
    version = {"counter": 4, "stateVersion": 2, "timestamp": 1_700_000_000_000}
    body = RegistrationBody(version, version, topics, {"static": mapping})
    fields = {
        "brokerName": "broker-a", "brokerAddr": "1.2.3.4:10911", "clusterName": "C",
        "haServerAddr": "1.2.3.4:10912", "brokerId": "0",
    }  # fmt: skip

    def told(compressed: bool) -> object:
        data, is_compressed = body.encoded(compressed)
        assert is_compressed == compressed
        form = {"compressed": str(compressed).lower()}
        return read(Command(code=103, fields={**fields, **form}, body=data))

    assert told(True) == told(False)


def lines_of(compressed: bytes) -> list[bytes]:
    """The topics in a compressed registration body."""
    data = zlib.decompress(compressed)
    at = 4 + int.from_bytes(data[:4], "big")
    lines = []
    for _ in range(int.from_bytes(data[at : at + 4], "big")):
        at += 4
        length = int.from_bytes(data[at : at + 4], "big")
        lines.append(data[at + 4 : at + 4 + length])
        at += length
    return lines


def test_name_servers_of_4_x_read_the_compressed_table() -> None:
    """A compressed table must have five parts for each topic: TopicConfig.decode of 4.x takes
    exactly five, and that of 5.x takes five, too."""
    described = TopicConfig("u", 8, 8, attributes={"message.type": "FIFO", "note": "two words"})
    topics = {topic.name: topic for topic in (TopicConfig("t", 3, 5, 4), described)}
    lines = lines_of(RegistrationBody({}, {}, topics, {}).compressed())
    assert [line.split(b" ") for line in lines] == [
        [b"t", b"3", b"5", b"4", b"SINGLE_TAG"], [b"u", b"8", b"8", b"6", b"SINGLE_TAG"],
    ]  # fmt: skip


def test_a_table_that_fits_as_json_is_not_compressed_unasked() -> None:
    """A table that fits as JSON must not be compressed unasked, because every name server reads
    JSON."""
    topics = [TopicConfig(f"{number:05}".rjust(120, "t"), 4, 4) for number in range(30_000)]
    body = RegistrationBody({}, {}, {topic.name: topic for topic in topics}, {})
    data, is_compressed = body.encoded(False)
    assert 8 << 20 < len(data) < FRAME_BYTES_MAX
    assert not is_compressed


@in_loop
async def test_other_topics_stay_at_a_name_server_that_deletes_what_is_not_registered(
    tmp_path: Path,
) -> None:
    async with name_server(deleteTopicWithBrokerRegistration=True) as server:
        for single in (True, False):
            async with (
                Client(server.port) as client,
                control(tmp_path / str(single), namesrvAddr=f"127.0.0.1:{server.port}",
                        enableSingleTopicRegister=single) as broker,
            ):  # fmt: skip
                for name in ("one", "two"):
                    await broker.topics.update(TopicConfig(name, 1, 1))
                for name in ("one", "two", "TBW102"):
                    assert (await client.call(105, topic=name)).code == 0
                await broker.topics.delete("one")
                assert (await client.call(105, topic="one")).code == 17
                assert (await client.call(105, topic="two")).code == 0


@in_loop
async def test_who_is_silent_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address) as broker:
            await broker.topics.update(TopicConfig("t", 1, 1))
            heard = threading.Event()
            answer = peer.answers[217]

            def late(request: Command) -> Command:
                heard.wait(HANG_S)
                return answer(request)

            peer.answers[217] = late
            loop = asyncio.get_running_loop()
            took, calm = [], []
            for n, wait_s in ((2, registration.LATE_S), (3, 10.0), (4, 10.0), (5, 10.0)):
                monkeypatch.setattr(siblings, "ROUTE_WAIT_S", wait_s)
                began, calm_began = loop.time(), calm_seconds()
                await broker.topics.update(TopicConfig("t", n, n))
                took.append(loop.time() - began)
                calm.append(calm_seconds() - calm_began)
            assert took[0] >= registration.LATE_S
            assert min(calm[1:]) < 10.0
            heard.set()
            await broker.core.until(lambda: peer.told[-1][1].get("writeQueueNums") == 5)


@in_loop
async def test_who_is_left_out_is_not_waited_for(tmp_path: Path) -> None:
    with Scripted() as peer:
        async with control(tmp_path, namesrvAddr=peer.address) as broker:
            heard = threading.Event()
            answer = peer.answers[217]

            def late(request: Command) -> Command:
                heard.wait(HANG_S)
                return answer(request)

            peer.answers[217] = late
            changing = asyncio.create_task(broker.topics.update(TopicConfig("t", 1, 1)))
            await broker.core.until(lambda: peer.requests[-1].code == 217)
            assert not changing.done()
            assert (await broker.core.client().call(25, b"namesrvAddr=\n")).code == 0
            await changing
            heard.set()


@in_loop
async def test_a_name_server_that_comes_later_or_again_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "RETRY_FIRST_S", 0.05)
    port = free_port()
    async with control(tmp_path, namesrvAddr=f"127.0.0.1:{port}") as broker:
        await broker.core.until(lambda: "registration failed" in caplog.text)
        assert broker.registration.registered() == []
        for _ in range(2):
            async with name_server(listenPort=port) as server:
                assert isinstance(server, NameServer)
                async with Client(port) as client:
                    await route(client, "TBW102")
            await broker.core.until(lambda: broker.registration.registered() == [])


@in_loop
async def test_a_dead_name_server_delays_nobody(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        addresses = f"127.0.0.1:1;nonsense;127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=addresses) as broker:
            await route(client, "TBW102")
            tool = broker.core.client()
            assert (await tool.call(30, topic="t", queueId=0)).code == 0


@in_loop
async def test_the_list_of_name_servers_changes_at_run_time(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client, control(tmp_path) as broker:
        tool = broker.core.client()
        body = f"namesrvAddr=127.0.0.1\\:{server.port}\n".encode()
        assert (await tool.call(25, body)).code == 0
        await route(client, "TBW102")
        assert (await tool.call(25, b"namesrvAddr=\n")).code == 0
        await route(client, "TBW102", present=False)


@in_loop
async def test_a_read_only_broker_registers_without_write_permission(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        address = f"127.0.0.1:{server.port}"
        async with control(tmp_path, namesrvAddr=address, brokerPermission=4):
            assert (await route(client, "TBW102"))["queueDatas"][0]["perm"] == 5


@in_loop
async def test_topics_the_name_server_calls_ordered_are_marked(tmp_path: Path) -> None:
    async with name_server() as server, Client(server.port) as client:
        await client.call(100, namespace="ORDER_TOPIC_CONFIG", key="t", value="broker-a:2")
        async with control(
            tmp_path, namesrvAddr=f"127.0.0.1:{server.port}", enableSingleTopicRegister=False
        ) as broker:
            await broker.topics.create(TopicConfig("t", 2, 2))
            await broker.core.until(lambda: broker.core.topics[b"t"] == (2, 2, 6, 1))
            assert broker.topics.require("t").order


def test_addresses_are_checked() -> None:
    assert parse_address(" [::1]:9876 ") == ("::1", 9876)
    assert parse_address("host:1") == ("host", 1)
    for text in ("", "host", ":1", "host:", "host:0", "host:65536", "host:x"):
        with pytest.raises(CallError):
            parse_address(text)
