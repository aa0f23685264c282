"""Showing and changing settings over the wire: only the keys of the allow-list can be changed."""

from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop

from rmq import java_properties


@in_loop
async def test_all_settings_are_shown_as_properties(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        reply = await broker.core.client().call(26)
        shown = java_properties.parse(reply.body.decode())
        assert shown["brokerName"] == "broker-a"
        assert shown["fileReservedTime"] == "72"
        assert '"counter":0' in reply.fields["version"]


@in_loop
async def test_allowed_keys_change_and_reach_the_core(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        body = b"fileReservedTime=48\nlongPollingEnable=false\nflushIntervalCommitLog=7\n"
        assert (await client.call(25, body)).code == 0
        assert broker.settings.fileReservedTime == 48
        two_thirds_ms = 48 * 3_600_000 * 2 // 3  # a timed message gets a new record after that time
        assert broker.core.options == {
            "long_polling": 0, "flush_interval_ms": 7, "timer_roll_ms": two_thirds_ms,
        }  # fmt: skip
        assert '"counter":1' in (await client.call(26)).fields["version"]


@in_loop
async def test_any_other_key_refuses_the_whole_request_by_name(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for key in ("storePathRootDir", "listenPort", "configBlackList", "nonsense",
                    "rocketmqHome", "brokerConfigPath"):  # fmt: skip
            reply = await client.call(25, f"fileReservedTime=48\n{key}=1\n".encode())
            assert reply.code == 16
            assert key in (reply.remark or "")
            assert broker.settings.fileReservedTime == 72


@in_loop
async def test_a_value_of_several_lines_is_one_value(tmp_path: Path) -> None:
    """A value with line breaks must not smuggle in a second setting. In CVE-2023-33246 and
    CVE-2023-37582 such a value became a command, or the content of a file."""
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for key in ("deleteWhen", "namesrvAddr", "fileReservedTime"):
            reply = await client.call(25, f"{key}=04\\nrocketmqHome=/x\n".encode())
            assert reply.code in (1, 16) and key in (reply.remark or "")
        shown = java_properties.parse((await client.call(26)).body.decode())
        assert shown["deleteWhen"] == "04" and "rocketmqHome" not in shown


@in_loop
async def test_wrong_values_are_refused(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for body in (b"fileReservedTime=soon", b"fileReservedTime=-1", b"a=\\u12", b"\xff=1"):
            reply = await client.call(25, body)
            assert reply.code in (1, 16)
            assert broker.settings.fileReservedTime == 72


@in_loop
async def test_what_has_no_effect_is_taken_shown_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        body = b"sendMessageThreadPoolNums=8\nfileReservedTime=48\nasyncSendEnable=false"
        reply = await client.call(25, body)
        ignored = "asyncSendEnable, sendMessageThreadPoolNums"
        assert (reply.code, reply.remark) == (0, f"without effect in rmq: {ignored}")
        assert "sendMessageThreadPoolNums" in caplog.text
        shown = java_properties.parse((await client.call(26)).body.decode())
        assert (shown["sendMessageThreadPoolNums"], shown["fileReservedTime"]) == ("8", "48")


@in_loop
async def test_what_would_be_unsafe_to_ignore_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        for text in ("enableDLegerCommitLog=true", "minInSyncReplicas=2",
                     "allAckInSyncStateSet=true", "useTLS=true"):  # fmt: skip
            reply = await client.call(25, f"fileReservedTime=48\n{text}\n".encode())
            assert reply.code == 1
            assert f"{text}: refused, " in (reply.remark or "")
            assert "nothing was changed" in (reply.remark or "")
            assert broker.settings.fileReservedTime == 72
        assert (await client.call(25, b"aclEnable=false\nminInSyncReplicas=1")).code == 0


@in_loop
async def test_what_needs_a_restart_is_not_called_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with control(tmp_path) as broker:
        client = broker.core.client()
        reply = await client.call(25, b"flushDiskType=SYNC_FLUSH")
        assert (reply.code, "restart" in (reply.remark or "")) == (16, True)
        told: list[dict[str, str]] = []
        monkeypatch.setattr(broker.siblings, "settings_changed", told.append)
        body = b"flushDiskType=ASYNC_FLUSH\nlistenPort=26911\nfileReservedTime=48"
        assert (await client.call(25, body)).code == 0
        assert told == [{"fileReservedTime": "48"}], "other shards listen on other ports"
