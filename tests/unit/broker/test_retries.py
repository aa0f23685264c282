"""The control thread's part of messages that consumers send back: topics, groups, retry policies,
delayOffset.json. The reactor makes the copies and delivers them: tests/unit/flow."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from support.fake_core import FakeCore, control
from support.name_server import in_loop

from rmq.broker.tables.groups import GroupConfig
from rmq.broker.tables.message_delay_level import parse_levels
from rmq.broker.tables.retry_policy import retry_levels
from rmq.broker.tasks.truncation import Summary, finish
from rmq.demo.ports import free_port
from rmq.errors import ConfigError

SCHEDULE = b"SCHEDULE_TOPIC_XXXX"


def test_levels_are_read() -> None:
    assert parse_levels("1s 5m 2h 1d") == [1000, 300_000, 7_200_000, 86_400_000]
    for text in ("", "5", "s", "1x", " ".join(["1s"] * 19)):
        with pytest.raises(ConfigError):
            parse_levels(text)


@in_loop
async def test_what_the_reactor_misses_is_made_and_the_request_goes_back(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        core, client = broker.core, broker.core.client()
        source = core.store("t", 0, b"job", reconsume_times=2)
        ask = {"offset": source.physical_offset, "group": "g", "delayLevel": 0}
        client.put(36, **ask)
        await core.until(lambda: len(core.resubmitted) == 1)
        assert core.retries[b"g"] == (1, 16, b"")
        assert (b"%RETRY%g" in core.topics, b"%DLQ%g" in core.topics) == (True, False)
        client.put(36, **ask, maxReconsumeTimes=2)
        await core.until(lambda: len(core.resubmitted) == 2)
        assert b"%DLQ%g" in core.topics
        client.put(36, **{**ask, "group": "h", "delayLevel": -1})
        await core.until(lambda: len(core.resubmitted) == 3)
        assert b"%DLQ%h" in core.topics
        assert [command.code for _, command in core.resubmitted] == [36] * 3


@in_loop
async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path, autoCreateSubscriptionGroup=False) as broker:
        client = broker.core.client()
        source = broker.core.store("t", 0)
        ask = {"offset": source.physical_offset, "group": "g", "delayLevel": 0}
        assert (await client.call(36, **ask)).code == 26
        await broker.groups.update(GroupConfig("g"))
        assert (await client.call(36, **{**ask, "offset": 1})).code == 1
        assert (await client.call(36, **{**ask, "offset": -1})).code == 1
        assert (await client.call(36, **{**ask, "group": "a/b"})).code == 29
        broker.core.records[source.physical_offset] = b"not a record"
        assert (await client.call(36, **ask)).code == 1
        broker.settings.set("brokerPermission", "4")
        assert (await client.call(36, **ask)).code == 16
        broker.settings.set("brokerPermission", "6")
        await broker.groups.update(GroupConfig("g", retry_queues=0))
        # The message is dropped, as the group's settings say.
        assert (await client.call(36, **ask)).code == 0
        assert broker.core.resubmitted == []


STANDARD = parse_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


@pytest.mark.parametrize(
    ("policy", "levels"),
    [
        ({"type": "CUSTOMIZED"}, []),
        ({"type": "EXPONENTIAL"}, []),
        ({}, []),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": []}}, []),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2, 5000, 45_000, 1]}},
         [2, 5, 1, 1]),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [3_600_001]}}, [18, 18]),
        ({"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": ["x", True, -5, 10**30]}},
         [1, 18, 18]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy":
          {"initial": 5000, "max": 7_200_000, "multiplier": 2}},
         [2, 3, 4, 5, 6, 7, 10, 15, 16, 17, 18, 18, 18]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {}},
         [2, 3, 4, 5, 6, 7, 10, 15, 16, 17, 18]),
        ({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 99 * 86_400_000,
          "max": 10**30, "multiplier": 10**30}}, [18, 18, 18]),
    ],
)  # fmt: skip
def test_a_policy_becomes_delay_levels(policy: dict[str, object], levels: list[int]) -> None:
    found = retry_levels(policy, STANDARD)
    assert list(found[: len(levels)]) == levels
    assert len(found) == (32 if levels else 0)
    assert not levels or set(found[len(levels) :]) == {levels[-1]}


def test_levels_need_not_be_in_order() -> None:
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [2000]}}
    assert retry_levels(policy, parse_levels("1h 1s 3s 1m"))[0] == 3


@in_loop
async def test_the_file_says_how_far_each_level_is_delivered(tmp_path: Path) -> None:
    core = FakeCore()
    async with control(tmp_path, core, messageDelayLevel="1s 1h") as broker:
        assert (core.delays_ms, core.delivered_to) == ([1000, 3_600_000], [0, 0])
        core.store(SCHEDULE.decode(), 1)
        core.delivered_to = [0, 1]
        await broker.delays.save()
        table = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())
        assert table["offsetTable"] == {"1": 0, "2": 1}
        core.store(SCHEDULE.decode(), 0)
        core.delivered_to = [1, 1]
    async with control(tmp_path, core, messageDelayLevel="1s 1h"):
        assert core.delivered_to == [1, 1]


@in_loop
async def test_offsets_wait_for_their_deliveries_to_be_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = FakeCore()
    async with control(tmp_path, core) as broker:
        for _ in range(9):
            core.store(SCHEDULE.decode(), 0)
        durable = 10
        monkeypatch.setattr(core, "log_range", lambda: (0, core.log_end, durable))
        file = tmp_path / "config" / "delayOffset.json"
        core.delivered_to = [5] + [0] * 17
        await broker.delays.save()
        assert not file.exists()
        synced, core.delivered_to = core.log_end, [7] + [0] * 17
        core.store("t", 0)
        await broker.delays.save()
        assert not file.exists()
        durable = synced
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 5
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 5
        durable = core.log_end
        await broker.delays.save()
        assert json.loads(file.read_bytes())["offsetTable"]["1"] == 7


@pytest.mark.parametrize("said", [99, -1, "x", 10**30])
def test_an_offset_outside_of_its_queue_is_corrected(tmp_path: Path, said: object) -> None:
    @in_loop
    async def run() -> None:
        core = FakeCore()
        for _ in range(3):
            core.store(SCHEDULE.decode(), 0)
        core.queue_minimum[SCHEDULE, 0] = 1
        (tmp_path / "config").mkdir()
        file = tmp_path / "config" / "delayOffset.json"
        file.write_text(json.dumps({"offsetTable": {"1": said}}))
        corrected = 3 if said in (99, 10**30) else 1
        async with control(tmp_path, core):
            assert core.delivered_to[0] == corrected
            assert json.loads(file.read_bytes())["offsetTable"]["1"] == corrected
        for _ in range(100):  # by now the file's offset lies within the queue
            core.store(SCHEDULE.decode(), 0)
        async with control(tmp_path, core):
            assert core.delivered_to[0] == corrected, "what was stored since is not delivered"

    run()


class CutCore(FakeCore):
    """A core whose log was cut: three records are gone."""

    truncation: bytes | None = Summary(0, records=3).note()

    def queue_ends(self) -> dict[tuple[bytes, int], int]:
        return {name: len(entries) for name, entries in self.queues.items()}

    def finish_truncation(self) -> None:
        self.truncation = None


def test_a_cut_lowers_no_offset_below_what_the_queue_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cut must not set an offset below what the queue still has. It once did, and the next start
    logged an error about what the cut had written."""

    @in_loop
    async def run() -> None:
        core: Any = CutCore()
        for _ in range(100):
            core.store(SCHEDULE.decode(), 0)
        core.queue_minimum[SCHEDULE, 0] = 100
        (tmp_path / "config").mkdir()
        file = tmp_path / "config" / "delayOffset.json"
        file.write_text(json.dumps({"offsetTable": {"1": 100, "2": 5}}))
        finish(core, tmp_path / "config")
        assert json.loads(file.read_bytes())["offsetTable"] == {"1": 100, "2": 0}
        async with control(tmp_path, core, messageDelayLevel="1s 1h"):
            assert core.delivered_to == [100, 0]

    run()
    assert not [each for each in caplog.records if "is not within" in each.message]


@pytest.mark.parametrize(
    ("is_copy", "said", "level"),
    [(False, 5, logging.ERROR), (False, 0, logging.ERROR),
     (True, 5, logging.INFO), (True, 0, logging.INFO), (True, -1, logging.ERROR)],
)  # fmt: skip
@pytest.mark.parametrize("is_slave", [False, True])
def test_a_slave_that_copied_more_than_its_log_has_has_lost_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_slave: bool, is_copy: bool, said: int,
    level: int,
) -> None:  # fmt: skip
    """A copied offset may lie outside the slave's log without an error: the master had delivered
    messages that the slave's log did not have yet when it was stopped, or the slave's log begins
    later. An offset of the broker's own deliveries may not, whatever its role is by now."""

    @in_loop
    async def run() -> None:
        core = FakeCore()
        for _ in range(3):
            core.store(SCHEDULE.decode(), 0)
        core.queue_minimum[SCHEDULE, 0] = 1
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "delayOffset.json").write_text(
            json.dumps({"offsetTable": {"1": said}} | ({"rmqCopy": True} if is_copy else {}))
        )
        settings: dict[str, object] = {"messageDelayLevel": "1s"}
        if is_slave:
            address = f"127.0.0.1:{free_port()}"
            settings.update(brokerRole="SLAVE", brokerId=1, rmqMasterAddress=address)
        with caplog.at_level(logging.INFO):
            async with control(tmp_path, core, **settings):
                assert core.delivered_to == [3 if said == 5 else 1]

    run()
    assert [each.levelno for each in caplog.records if "is not within" in each.message] == [level]


@in_loop
async def test_the_file_says_whether_its_offsets_are_a_masters(tmp_path: Path) -> None:
    def file() -> tuple[object, bool]:
        content = json.loads((tmp_path / "config" / "delayOffset.json").read_bytes())
        return content["offsetTable"], content.get("rmqCopy", False)

    core, levels = FakeCore(), {"messageDelayLevel": "1s 1h"}
    for _ in range(3):
        core.store(SCHEDULE.decode(), 0)
    async with control(tmp_path, core, **levels) as broker:
        broker.delays.copy({"1": 0, "2": 0})  # the offsets that it had already
        await broker.delays.save()
        assert file() == ({"1": 0, "2": 0}, True)
        broker.delays.copy({"1": 1})
        assert "rmqCopy" not in broker.delays.content()
    assert file() == ({"1": 1, "2": 0}, True)
    async with control(tmp_path, core, **levels) as broker:
        await broker.delays.save()
        assert file() == ({"1": 1, "2": 0}, True)
        core.delivered_to = [2, 0]  # as if it were master now, and delivered
        await broker.delays.save()
        assert file() == ({"1": 2, "2": 0}, False)
        broker.delays.copy({"1": 3})
    assert file() == ({"1": 3, "2": 0}, True)


@in_loop
async def test_a_topic_that_a_due_message_misses_is_made(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        broker.core.report(4, 3, b"gone")
        await broker.core.until(lambda: b"gone" in broker.core.topics)
        assert broker.core.topics[b"gone"] == (3, 3, 6, 0)
        for number, name in ((3, b"../x"), (1 << 40, b"t"), (0, b"t"), (1, b"last")):
            broker.core.report(4, number, name)
        await broker.core.until(lambda: b"last" in broker.core.topics)
        assert not {b"../x", b"t"} & broker.core.topics.keys()
