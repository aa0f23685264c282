"""A slave has what its master has: the log, and the tables that are not in the log.

Method: two live brokers in this process, joined by real sockets. The bytes between the cores:
tests/unit/flow/test_ha_stream.py; killed processes: tests/process; Apache's brokers: tests/compat.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.broker_client import BrokerClient
from support.driven_clock import DrivenClock
from support.fake_core import control
from support.live_broker import SMALL, fill_log, live_broker, records
from support.live_replicas import MASTER, SYNC, TOPIC, slave_of, until_same_log
from support.name_server import in_loop, name_server
from support.queue_mappings import detail, item
from support.store_copies import copy_store
from support.waiting import until

from rmq.broker.broker import Broker
from rmq.broker.replication import metadata_copy
from rmq.broker.replication.ha_port import is_replica
from rmq.broker.replication.master_search import MasterSearch
from rmq.broker.replication.metadata_copy import MetadataCopy
from rmq.broker.tables.topic_config import TopicConfig
from rmq.config import load_properties
from rmq.errors import ConfigError, ProtocolError
from rmq.format import fastjson
from rmq.format.remoting import Command
from rmq.serving.remoting_client import CallError

SUCCESS, SLAVE_NOT_AVAILABLE, NOT_AVAILABLE, NO_PERMISSION = 0, 11, 14, 16


def problem_of(slave: Broker) -> str:
    """What the slave's metrics and its page in the console say of its copies."""
    return slave.sampler.take().replication_problem


@in_loop
async def test_a_slave_has_the_log_and_all_tables_of_its_master(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="before", **TOPIC)
        assert (await client.send("before", b"1")).code == SUCCESS
        async with slave_of(master, tmp_path / "s") as slave:
            await client.call(17, topic="t", **TOPIC)
            assert (await client.send("t", b"2", queue=3)).code == SUCCESS
            group = {"groupName": "g", "retryMaxTimes": 7}
            await client.call(200, fastjson.dumps(group))
            await client.call(353, group="g", topic="t", readable="false")
            mode = {"topic": "t", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 2}
            await client.call(401, fastjson.dumps(mode))
            place = {"consumerGroup": "g", "topic": "t", "queueId": 3}
            await client.call(15, commitOffset=1, **place)
            await until_same_log(master, slave)
            assert [each.body for each in records(slave, "before")] == [b"1"]
            assert [each.body for each in records(slave, "t", 3)] == [b"2"]
            await until(lambda: slave.offsets.query("g", "t", 3) == 1)
            await until(lambda: slave.groups.all() == master.groups.all())
            await until(lambda: slave.request_modes.of("t", "g") == ("POP", 2))
            await until(lambda: not slave.groups.may_read("g", "t"))
            assert slave.topics.all() == master.topics.all()
            await client.call(353, group="g", topic="t", readable="true")
            await client.call(215, topic="t")
            await until(lambda: "t" not in slave.topics and slave.groups.may_read("g", "t"))
            await client.call(207, groupName="g", cleanOffset="true")
            await until(lambda: "g" not in slave.groups and slave.offsets.query("g", "t", 3) == -1)
        # What the slave has must be in its files, too.
        async with slave_of(master, tmp_path / "s", rmqMasterAddress="127.0.0.1:1") as slave:
            assert slave.topics.all() == master.topics.all()
            assert [each.body for each in records(slave, "before")] == [b"1"]


@in_loop
async def test_a_topic_is_deleted_again_and_again_while_its_messages_come(tmp_path: Path) -> None:
    """A slave that sees only some of the deletions must end with the same queues as its master."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        BrokerClient(master.core.port) as admin,
        slave_of(master, tmp_path / "s") as slave,
    ):
        for _ in range(10):
            deleting = asyncio.ensure_future(admin.call(215, topic="t"))
            while not deleting.done():
                for queue in range(4):
                    await client.send("t", b"x", queue)
            assert (await deleting).code == SUCCESS
        for queue in range(4):
            assert (await client.send("t", b"last", queue)).code == SUCCESS
        await until_same_log(master, slave)
        for queue in range(4):
            found = [(each.queue_offset, each.body) for each in records(slave, "t", queue)]
            assert found == [(each.queue_offset, each.body) for each in records(master, "t", queue)]
            assert found[-1][1] == b"last"


@in_loop
@pytest.mark.parametrize("starts_between", [False, True])
async def test_a_topic_that_was_made_anew_while_a_slave_was_away_has_no_older_messages(
    tmp_path: Path, starts_between: bool
) -> None:
    """The slave never sees a table without the topic. Only queue 0 has a new message."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        for queue in range(3):
            for _ in range(3):
                assert (await client.send("t", b"old", queue)).code == SUCCESS
        async with slave_of(master, tmp_path / "s") as slave:
            await until_same_log(master, slave)
            assert slave.core.queue_range(b"t", 1) == (0, 3)
        assert (await client.call(215, topic="t")).code == SUCCESS
        await client.call(17, topic="t", **TOPIC)
        assert (await client.send("t", b"new", 0)).code == SUCCESS
        if starts_between:  # the slave takes the log then, but no tables
            async with slave_of(master, tmp_path / "s", rmqMasterAddress="127.0.0.1:1") as slave:
                assert slave.core.queue_range(b"t", 1) == (0, 3)
        async with slave_of(master, tmp_path / "s") as slave:
            await until_same_log(master, slave)
            await until(lambda: slave.core.queue_range(b"t", 1) in (None, (0, 0)))
            assert [each.body for each in records(slave, "t")] == [b"new"]
            assert slave.core.queue_range(b"t", 2) in (None, (0, 0))
            # The next deletion is a different one; what came after the first must stay.
            assert (await client.send("t", b"newer", 1)).code == SUCCESS
            await client.call(17, topic="another", **TOPIC)
            await until_same_log(master, slave)
            for queue, body in ((0, b"new"), (1, b"newer")):
                assert [each.body for each in records(slave, "t", queue)] == [body]
        async with slave_of(master, tmp_path / "s") as slave:  # the same after a restart
            await client.call(17, topic="a-third", **TOPIC)
            await until_same_log(master, slave)
            for queue, body in ((0, b"new"), (1, b"newer")):
                assert [each.body for each in records(slave, "t", queue)] == [body]


@in_loop
async def test_a_topic_that_was_made_anew_keeps_its_offsets_when_its_messages_have_left(
    tmp_path: Path,
) -> None:
    """A queue that retention emptied must not be taken for that of the older, deleted topic."""
    segment = int(SMALL["mappedFileSizeCommitLog"])
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        async with slave_of(master, tmp_path / "s") as slave:
            for body in (b"old", b"new"):
                await client.call(17, topic="t", **TOPIC)
                assert (await client.send("t", body, 1)).code == SUCCESS
                await until_same_log(master, slave)
                if body == b"old":
                    assert (await client.call(215, topic="t")).code == SUCCESS
            assert [each.body for each in records(slave, "t", 1)] == [b"new"]
            await client.call(17, topic="other", **TOPIC)
            await fill_log(master, client, "other", segment + segment // 2)
            await until_same_log(master, slave)
            for core in (master.core, slave.core):
                await until(lambda core=core: core.drop_segments(2**62, 1, 1))
                await until(lambda core=core: core.queue_range(b"t", 1) == (1, 1))
            assert master.topics.deleted() == slave.topics.deleted() == {}
        async with slave_of(master, tmp_path / "s") as slave:  # its file has no deletion any more
            for number in range(2):
                await client.call(17, topic=f"another{number}", **TOPIC)
                await until(lambda number=number: f"another{number}" in slave.topics)
            assert slave.core.queue_range(b"t", 1) == (1, 1)


@in_loop
async def test_topics_are_copied_while_a_deletion_is_ahead_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark beyond the slave's log, as of a master whose last writes failed, must stop no copy."""
    monkeypatch.setattr("rmq.broker.replication.metadata_copy.REACH_S", 0.05)
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        assert (await client.send("TBW102")).code == SUCCESS
        await until_same_log(master, slave)
        end = master.core.log_range()[1]
        mark = {"ghost": (end + 1, 7)}
        await master.topics.copy(master.topics.all(), end, mark)
        await client.call(17, topic="t", **TOPIC)
        await until(lambda: "t" in slave.topics)
        await until(lambda: f"log ended at {end + 1}" in problem_of(slave))
        assert slave.topics.deleted() == {}
        group = fastjson.dumps({"groupName": "g"})
        await client.call(200, group)
        await until(lambda: "g" in slave.groups)
        assert (await client.send("TBW102")).code == SUCCESS
        await until(lambda: slave.topics.deleted() == {"ghost": [end + 1, 7]})
        await until(lambda: problem_of(slave) == "")


@in_loop
async def test_what_control_stores_is_answered_when_slaves_have_it(tmp_path: Path) -> None:
    """A half message that an operator has checked again (323) waits for slaves like any message."""
    async with (
        live_broker(tmp_path / "m", **SYNC, slaveTimeout=60_000) as master,
        BrokerClient(master.core.port) as client,
    ):
        half = {"i": "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01U\x02", "f": 4}
        async with slave_of(master, tmp_path / "s") as slave:
            await until(lambda: len(master.core.ha_connections()) == 1)
            await client.call(17, topic="t", **TOPIC)
            sent = await client.send("t", b"half", **half)
            assert sent.code == SUCCESS
            assert (await client.call(323, msgId=sent.fields["msgId"])).code == SUCCESS
            assert slave.core.log_range()[1] == master.core.log_range()[1]
            # A slave that has not reported the message.
            slave.core.leave_master()
            await until(lambda: not master.core.ha_connections())
        before = master.core.log_range()[1]
        alone = await client.call(323, msgId=sent.fields["msgId"])
        assert (alone.code, "fewer slaves follow" in (alone.remark or "")) == (
            SLAVE_NOT_AVAILABLE, True,
        )  # fmt: skip
        assert master.core.log_range()[1] > before, "it is stored here"


@pytest.mark.parametrize("code", [0, 2, 16])
@in_loop
async def test_nothing_is_copied_from_who_does_not_say_what_it_has(
    tmp_path: Path, code: int
) -> None:
    """A busy master, or one that is a slave by now, must not be taken for one of RocketMQ's."""

    class Link:
        address = "h:1"

        async def call(self, command: Command, timeout_s: float) -> Command:
            assert command.code == 906, "a table was asked for"
            return command.reply(code)

    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await until_same_log(master, slave)
        with pytest.raises(CallError, match=f"h:1 does not say what it has: code {code}"):
            await slave.replication._copy._round(Link(), True)  # type: ignore[arg-type]


@in_loop
async def test_nothing_is_taken_from_one_who_stops_being_master_meanwhile(tmp_path: Path) -> None:
    """Its log took no more writes: what its delay offset counts as delivered is in no log."""
    names = ("topics", "groups", "modes", "offsets", "timers", "accounts")

    class Link:
        address = "h:1"
        asked: ClassVar[list[int]] = []

        async def call(self, command: Command, timeout_s: float) -> Command:
            self.asked.append(command.code)
            if self.asked == [906]:
                versions = dict.fromkeys(names, "") | {"delays": "1763726400.5 1"}
                told = {"rmqVersions": json.dumps(versions), "rmqLogEnd": "1000000"}
                return command.reply(fields={**told, "rmqLogWritten": "0"})
            return command.reply(body=b'{"offsetTable":{"2":1}}' if command.code == 45 else b"")

    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await until_same_log(master, slave)
        copy = MetadataCopy(slave, slave.core, slave.replication._search)
        with pytest.raises(CallError, match="h:1 does not say where its log ends"):
            await copy._round(Link(), True)  # type: ignore[arg-type]
        assert Link.asked == [906, 45, 906]
        assert not any(slave.delays.offsets())


@in_loop
async def test_what_a_slave_cannot_read_of_a_table_is_not_deleted(tmp_path: Path) -> None:
    """As in a table of another release: the topic and its messages exist at the master."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        for name in ("t", "u"):
            await client.call(17, topic=name, **TOPIC)
            await client.call(200, fastjson.dumps({"groupName": name, "retryMaxTimes": 7}))
        static = detail("broker-a", {0: [item(0, "broker-a", 0, 0)]}, 1, 9)
        static_topic = {**TOPIC, "readQueueNums": 1, "writeQueueNums": 1}
        assert (await client.call(513, static, topic="s", **static_topic)).code == SUCCESS
        assert (await client.send("t", b"kept")).code == SUCCESS
        await until_same_log(master, slave)
        exchange = master.replication.exchange
        await until(lambda: exchange.has(1, exchange.counts(("topics", "groups"))))
        mappings = slave.queue_mappings.all()
        assert mappings.keys() == {"s"}
        group = slave.groups.all()["t"]
        topics = {name: each.members() for name, each in master.topics.all().items()}
        topics["t"]["readQueueNums"] = "many"
        del topics["u"]
        groups = {"t": {"groupName": "t", "retryQueueNums": -1}}
        details = {"s": {"epoch": "x"}}
        copy = MetadataCopy(slave, slave.core, slave.replication._search)
        table = {"topicConfigTable": topics, "topicQueueMappingDetailMap": details}
        await copy._topics(table, "h:1")
        await copy._groups({"subscriptionGroupTable": groups}, "h:1")
        assert slave.topics.all() == {
            name: each for name, each in master.topics.all().items() if name != "u"
        }
        assert [each.body for each in records(slave, "t")] == [b"kept"]
        assert slave.groups.all().get("t") == group and "u" not in slave.groups
        assert slave.queue_mappings.all() == mappings


@in_loop
async def test_a_topic_that_a_new_slave_never_could_read_is_there_when_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its messages are in the log, so it must count as deleted neither at the first copy nor
    then."""

    class Reader:
        @staticmethod
        def of(members: Mapping[str, Any]) -> TopicConfig:
            if members.get("topicName") == "t":
                raise ProtocolError("it is of another release")
            return TopicConfig.of(members)

    monkeypatch.setattr(metadata_copy, "TopicConfig", Reader)
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        for name in ("t", "u"):
            await client.call(17, topic=name, **TOPIC)
            assert (await client.send(name, b"kept", queue=2)).code == SUCCESS
        await client.call(215, topic="u")
        async with slave_of(master, tmp_path / "s") as slave:
            exchange = master.replication.exchange
            for _ in range(2):
                await until(lambda: exchange.has(1, exchange.counts(("topics",))))
                assert "t" not in slave.topics and slave.topics.deleted().keys() == {"u"}
                await client.call(17, topic="another", **TOPIC)
            await until(lambda: "another" in slave.topics)
            assert await slave.topics.make_for_queues()
            assert slave.topics.all()["t"].read_queues == 3 and "u" not in slave.topics
            assert slave.topics.deleted().keys() == {"u"}
            assert [each.body for each in records(slave, "t", 2)] == [b"kept"]


@in_loop
async def test_accounts_that_are_kept_from_a_slave_are_not_said_to_be_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a user's deletion would count as copied, and that user could go on."""
    names = ("topics", "groups", "modes", "offsets", "delays", "timers")
    why = iter(("accounts: passwords do not go to another machine in plain text", "", ""))

    class Link:
        address = "h:1"
        said: ClassVar[list[tuple[str | None, str | None]]] = []

        async def call(self, command: Command, timeout_s: float) -> Command:
            self.said.append((command.text_field("rmqKnown"), command.text_field("rmqKept")))
            versions = dict.fromkeys(names, "") | {"accounts": f"1763726400.5 {len(self.said)}"}
            told = {"rmqVersions": json.dumps(versions), "rmqLogEnd": "1000000"}
            return command.reply(fields={**told, "rmqLogWritten": "0"})

    async def copied(link: object) -> str:
        return next(why)

    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await until_same_log(master, slave)
        copy = MetadataCopy(slave, slave.core, slave.replication._search)
        monkeypatch.setattr(copy, "_copy_accounts", copied)
        for _ in range(3):
            await copy._round(Link(), True)  # type: ignore[arg-type]
        assert Link.said == [
            ('{"orders":""}', None),
            ('{"orders":""}', '{"accounts":"1763726400.5 1"}'),
            ('{"orders":"","accounts":"1763726400.5 2"}', None),
        ]


@in_loop
async def test_what_is_kept_from_a_slave_is_no_reason_to_answer_it(tmp_path: Path) -> None:
    async with control(tmp_path, rmqReplicaAddresses="10.0.0.9") as broker:
        client, versions = broker.core.client(), broker.replication.exchange.versions()
        known = {name: version for name, version in versions.items() if name != "topics"}
        kept = {"topics": versions["topics"]}
        opaque = client.put(906, rmqSlave=1, rmqKnown=json.dumps(known), rmqKept=json.dumps(kept),
                            rmqWaitMillis=30_000)  # fmt: skip
        await client.call(999)  # is answered after the held 906 was looked at
        assert broker.replication.exchange.ever() == 1 and client.reply_to(opaque) is None


@in_loop
async def test_a_new_slave_has_no_messages_of_a_topic_that_was_deleted(tmp_path: Path) -> None:
    """The log brings them, but they must not show when the topic is made anew."""
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        assert (await client.send("t", b"old", 1)).code == SUCCESS
        assert (await client.call(215, topic="t")).code == SUCCESS
        await client.call(17, topic="u", **TOPIC)
        assert (await client.send("u", b"kept", 1)).code == SUCCESS
        async with slave_of(master, tmp_path / "s") as slave:
            await until_same_log(master, slave)
            await until(lambda: slave.core.queues_without_topic() == [])
            await client.call(17, topic="t", **TOPIC)
            await until(lambda: "t" in slave.topics)
            assert slave.core.queue_range(b"t", 1) in (None, (0, 0))
            assert [each.body for each in records(slave, "u", 1)] == [b"kept"]


@in_loop
async def test_a_slave_takes_neither_messages_nor_changes_and_says_where_they_belong(
    tmp_path: Path,
) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
        BrokerClient(slave.core.port) as client,
    ):
        await until(lambda: slave.replication.master_address)
        assert (await client.send("TBW102", b"x")).code == NOT_AVAILABLE
        for code, fields in ((17, {"topic": "t", **TOPIC}), (215, {"topic": "SELF_TEST_TOPIC"})):
            reply = await client.call(code, **fields)
            assert reply.code == NO_PERMISSION
            assert master.address in (reply.remark or "")
        # What clients cause just by being there must be made by the master alone.
        assert (await client.heartbeat("g", "TBW102")).code == SUCCESS
        assert "g" not in slave.groups
        assert "%RETRY%g" not in slave.topics


@in_loop
async def test_a_sync_master_answers_a_change_when_a_slave_has_it(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **SYNC, slaveTimeout=60_000) as master,
        BrokerClient(master.core.port) as client,
    ):
        reply = await client.call(17, topic="alone", **TOPIC)
        assert reply.code == SLAVE_NOT_AVAILABLE
        assert "alone" in master.topics, "it is made, as a message is stored"
        assert (await client.send("alone")).code == SLAVE_NOT_AVAILABLE
        sample = master.sampler.take()
        assert (sample.state, sample.slaves) == ("alone", [])
        assert sample.replication_problem.startswith("0 of 1 slaves follow")
        async with slave_of(master, tmp_path / "s") as slave:
            await until(lambda: master.replication.exchange.slaves() == 1)
            await until(lambda: len(master.core.ha_connections()) == 1)
            for number in range(20):
                assert (await client.call(17, topic=f"t{number}", **TOPIC)).code == SUCCESS
                assert f"t{number}" in slave.topics
                assert (await client.send(f"t{number}")).code == SUCCESS
                end = master.core.log_range()[1]
                assert slave.core.log_range()[1] >= end


@pytest.mark.usefixtures("clock")
@in_loop
async def test_a_slave_with_other_bytes_than_its_master_is_not_served(tmp_path: Path) -> None:
    """A power cut took the end of the master's log. When it is as long again, the slave's end lies
    within it, and its report would count as an ack of bytes that it does not have."""
    cut, kept = tmp_path / "cut", b"with the slave alone"
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        assert (await client.send("t", b"with both")).code == SUCCESS
    copy_store(tmp_path / "m", cut)
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
        BrokerClient(master.core.port) as client,
    ):
        assert (await client.send("t", kept)).code == SUCCESS
        await until_same_log(master, slave)
    async with live_broker(cut, **MASTER) as master:
        async with slave_of(master, tmp_path / "s") as slave:
            stream = slave.replication._stream
            await until(lambda: "Make it the master" in stream.problem)
        async with BrokerClient(master.core.port) as client:
            for number in range(3):
                assert (await client.send("t", b"%d" % number * len(kept))).code == SUCCESS
        async with slave_of(master, tmp_path / "s") as slave:
            stream = slave.replication._stream
            await until(lambda: "has other bytes than the master's" in stream.problem)
            assert master.core.ha_connections() == []
            assert [each.body for each in records(slave, "t")] == [b"with both", kept]
        shutil.rmtree(tmp_path / "s")
        async with slave_of(master, tmp_path / "s") as slave:
            await until_same_log(master, slave)


@in_loop
async def test_who_is_no_replica_is_not_taken_for_one(tmp_path: Path) -> None:
    """Made-up ids could take all places, and with a forged id a change would be confirmed that no
    slave has."""
    async with control(tmp_path, rmqReplicaAddresses="10.0.0.8;10.1.0.0/16") as broker:
        stranger = broker.core.client()
        for slave in range(1, 20):
            refused = await stranger.call(906, rmqSlave=slave)
            assert refused.code == NO_PERMISSION
            assert "rmqReplicaAddresses" in (refused.remark or "")
        assert broker.replication.exchange.ever() == 0
        assert (await stranger.call(906)).code == SUCCESS, "where the master is may be asked"
        broker.settings.set("rmqReplicaAddresses", "10.0.0.9")
        assert (await stranger.call(906, rmqSlave=1)).code == SUCCESS
        assert broker.replication.exchange.ever() == 1


@in_loop
async def test_a_change_does_not_wait_for_slaves_of_rocketmq(
    clock: DrivenClock, tmp_path: Path
) -> None:
    """RocketMQ's slaves report only what they have of the log, and ask for tables when they like. A
    slave of rmq must be waited for even if it no longer asks."""
    async with (
        live_broker(tmp_path / "m", **SYNC, slaveTimeout=60_000) as master,
        BrokerClient(master.core.port) as client,
    ):
        host, port = master.replication.ha_address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(bytes(8))
        await until(lambda: len(master.core.ha_connections()) == 1)
        assert (await client.call(17, topic="t", **TOPIC)).code == SUCCESS
        await client.call(906, rmqSlave=1)
        clock.advance(60)
        assert (await client.call(17, topic="u", **TOPIC)).code == SLAVE_NOT_AVAILABLE
        writer.close()


@pytest.mark.usefixtures("clock")  # the driven clock: offsets are looked at once a second
@in_loop
async def test_a_reset_of_offsets_reaches_the_slave_also_downwards(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await client.call(17, topic="t", **TOPIC)
        for _ in range(5):
            await client.send("t")
        master.offsets.commit("g", "t", 0, 5)
        await until(lambda: slave.offsets.query("g", "t", 0) == 5)
        await master.offsets.reset("g", "t", {0: 2})
        await until(lambda: slave.offsets.query("g", "t", 0) == 2)
        # A consumer takes the reset with its next pull, and goes on from there.
        await client.heartbeat("g", "t")
        await until(lambda: "g" in master.groups)
        await client.pull("g", "t", offset=5)
        master.offsets.commit("g", "t", 0, 4)
        assert master.offsets.query("g", "t", 0) == 4
        await until(lambda: slave.offsets.query("g", "t", 0) == 4)


@pytest.mark.usefixtures("clock")  # the driven clock, as above
@in_loop
async def test_a_reset_that_was_taken_of_one_queue_is_not_kept_for_it_by_the_slave(
    tmp_path: Path,
) -> None:
    """This holds although another queue of the same topic and group still has its own reset."""
    pair = b"t@g"
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
        slave_of(master, tmp_path / "s") as slave,
    ):
        await client.call(17, topic="t", **TOPIC)
        for queue in (0, 1):
            for _ in range(5):
                await client.send("t", queue=queue)
        await master.offsets.reset("g", "t", {0: 2, 1: 2})
        await until(lambda: slave.core.offsets(2).get(pair) == {0: 2, 1: 2})
        await client.heartbeat("g", "t")
        await until(lambda: "g" in master.groups)
        assert (await client.pull("g", "t", offset=5)).code == 21
        master.offsets.commit("g", "t", 0, 4)
        await until(lambda: slave.offsets.query("g", "t", 0) == 4)
        assert slave.core.offsets(2)[pair] == {1: 2}
        assert slave.offsets.query("g", "t", 1) == 2


@pytest.mark.usefixtures("clock")  # cores of one process close no connection: silence ends it
@in_loop
async def test_a_slave_follows_again_when_its_master_comes_back(tmp_path: Path) -> None:
    async with name_server() as names, AsyncExitStack() as last:
        where = {"namesrvAddr": f"127.0.0.1:{names.port}"}
        async with (
            live_broker(tmp_path / "m", **MASTER, **where) as master,
            BrokerClient(master.core.port) as client,
        ):
            await client.send("TBW102", b"1")
            slave = await last.enter_async_context(
                slave_of(master, tmp_path / "s", **where, rmqMasterAddress="")
            )
            await until_same_log(master, slave)
        await until(lambda: slave.sampler.take().state == "detached")
        async with (
            live_broker(tmp_path / "m", **MASTER, **where) as master,  # at another port
            BrokerClient(master.core.port) as client,
        ):
            await client.call(17, topic="t", **TOPIC)
            await client.send("t", b"2")
            await until_same_log(master, slave)
            assert [each.body for each in records(slave, "t")] == [b"2"]


@pytest.mark.usefixtures("clock")  # as above
@in_loop
async def test_a_master_that_has_lost_its_store_takes_nothing_from_its_slave(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as last:
        async with (
            live_broker(tmp_path / "m", **MASTER) as master,
            BrokerClient(master.core.port) as client,
        ):
            await client.call(17, topic="t", **TOPIC)
            await client.send("t", b"1")
            slave = await last.enter_async_context(slave_of(master, tmp_path / "s"))
            await until_same_log(master, slave)
        async with live_broker(tmp_path / "empty", **MASTER) as empty:
            slave.settings.set("rmqMasterAddress", empty.address)
            await until(lambda: empty.replication.exchange.slaves() == 1)
            await until(lambda: "it has lost what is here" in caplog.text)
            assert "t" in slave.topics
            assert [each.body for each in records(slave, "t")] == [b"1"]


@in_loop
async def test_a_new_slave_begins_where_the_masters_log_begins(tmp_path: Path) -> None:
    segment = int(SMALL["mappedFileSizeCommitLog"])
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        await fill_log(master, client, "t", 2 * segment + segment // 2)
        await until(lambda: master.core.drop_segments(2**62, 1, 1) or master.core.log_range()[0])
        begin, _, _ = master.core.log_range()
        assert begin in (segment, 2 * segment)
        async with slave_of(master, tmp_path / "s") as slave:
            await until_same_log(master, slave)
            assert slave.core.log_range()[:2] == master.core.log_range()[:2]
            assert records(slave, "t") == records(master, "t")
        async with slave_of(master, tmp_path / "s") as slave:  # recovery accepts this log
            assert slave.core.log_range()[:2] == master.core.log_range()[:2]
            assert records(slave, "t") == records(master, "t")


@in_loop
async def test_a_slave_says_that_its_master_has_removed_what_it_lacks(tmp_path: Path) -> None:
    segment = int(SMALL["mappedFileSizeCommitLog"])
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        BrokerClient(master.core.port) as client,
    ):
        await client.call(17, topic="t", **TOPIC)
        async with slave_of(master, tmp_path / "s") as slave:
            assert (await client.send("t", b"1")).code == SUCCESS
            await until_same_log(master, slave)
            end = slave.core.log_range()[1]
        await fill_log(master, client, "t", 2 * segment + segment // 2)
        await until(lambda: master.core.drop_segments(2**62, 1, 1) or master.core.log_range()[0])
        async with slave_of(master, tmp_path / "s") as slave:
            stream = slave.replication._stream
            await until(lambda: stream.problem)
            begin = master.core.log_range()[0]
            ends = f"log of this slave ends at {end}, and that of its master {master.address}"
            assert f"{ends} begins at {begin}" in stream.problem
            assert "remove its store" in stream.problem


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"brokerName": "other"}, "brokerName=other: the master at .* has brokerName=broker-a"),
        ({"brokerClusterName": "c"}, "brokerClusterName=c: the master at"),
        ({"mappedFileSizeCommitLog": 32 << 20}, "mappedFileSizeCommitLog=33554432: the master at"),
    ],
)
def test_a_master_of_another_kind_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    @in_loop
    async def run() -> None:
        async with live_broker(tmp_path / "m", **MASTER) as master:
            with pytest.raises(ConfigError, match=reason):
                async with slave_of(master, tmp_path / "s", **changes):
                    pass

    run()


@in_loop
async def test_a_master_that_serves_no_slaves_and_a_slave_are_no_masters(tmp_path: Path) -> None:
    def search(address: str) -> MasterSearch:
        given = {"brokerRole": "SLAVE", "brokerId": "1", "rmqMasterAddress": address}
        return MasterSearch(load_properties(None, {**SMALL, **given}))

    async with live_broker(tmp_path / "alone") as broker:
        with pytest.raises(CallError, match="set its brokerRole or haListenPort"):
            await search(broker.address).find()
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
    ):
        with pytest.raises(CallError, match="is a slave itself"):
            await search(slave.address).find()


@in_loop
async def test_the_status_of_both_sides(tmp_path: Path) -> None:
    async with (
        live_broker(tmp_path / "m", **MASTER) as master,
        slave_of(master, tmp_path / "s") as slave,
        BrokerClient(master.core.port) as client,
        BrokerClient(slave.core.port) as of_slave,
    ):
        assert (await client.send("TBW102")).code == SUCCESS
        await until_same_log(master, slave)
        end = master.core.log_range()[1]
        await until(lambda: [row[3] for row in master.core.ha_connections()] == [end])
        shown = fastjson.loads_object((await client.call(907)).body)
        assert (shown["master"], shown["masterCommitLogMaxOffset"]) == (True, end)
        (row,) = shown["haConnectionInfo"]
        assert (row["slaveAckOffset"], row["diff"], row["inSync"]) == (end, 0, True)
        assert row["addr"].startswith("127.0.0.1:")
        shown = fastjson.loads_object((await of_slave.call(907)).body)
        assert shown["master"] is False
        about = shown["haClientRuntimeInfo"]
        assert (about["activated"], about["maxOffset"]) == (True, end)
        assert about["masterAddr"] == master.replication.ha_address
        assert (await of_slave.call(908, masterFlushOffset=5)).code == SUCCESS
        assert (await client.call(908, masterFlushOffset=5)).code == 1
        sample = master.sampler.take()
        shown_state = sample.role, sample.state, sample.slaves[0].behind_bytes
        assert shown_state == ("master", "running", 0)
        sample = slave.sampler.take()
        assert (sample.role, sample.state) == ("slave", "running")
        assert sample.follows == master.replication.ha_address
        told = (await client.call(906)).fields
        assert told["masterHaAddress"] == master.replication.ha_address
        assert told["masterAddress"] == master.address
        # `rmq takeover` compares them while nobody may send.
        while (await of_slave.call(906)).fields != {"rmqTimers": told["rmqTimers"]}:
            told = (await client.call(906)).fields


@pytest.mark.parametrize(
    ("address", "allowed", "expected", "armed"),
    [
        ("127.0.0.1", "", True, False),
        ("::1", "", True, False),
        ("127.0.0.1", "127.0.0.1", True, True),
        ("10.0.0.7", "", False, False),
        ("10.0.0.7", "10.0.0.6;10.0.0.7", True, True),
        ("::ffff:10.0.0.7", "10.0.0.7", True, True),
        ("10.0.1.200", "10.0.1.0/24", True, True),
        ("10.0.2.1", "10.0.1.0/24", False, False),
        ("fe80::1%eth0", "fe80::/10", True, True),
    ],
)
def test_who_may_have_the_log(address: str, allowed: str, expected: bool, armed: bool) -> None:
    assert is_replica(address, allowed) is expected
    assert is_replica(address, allowed, trusts_machine=False) is armed


def test_what_is_no_address_ends_the_start(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        with pytest.raises(ConfigError, match=r"10\.0\.0 is no address and no network"):
            async with live_broker(tmp_path, **MASTER, rmqReplicaAddresses="10.0.0"):
                pass

    run()
