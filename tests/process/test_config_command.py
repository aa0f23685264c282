"""Goal: settings of running servers are shown, changed where that is allowed, and compared.

Method: two shards as two brokers with a name server; the commands run in this process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.broker_process import BrokerProcess, broker_process
from support.command_line import rmq as run
from support.waiting import wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with broker_process(tmp_path_factory.mktemp("config"), ["--shards", "2"]) as process:
        yield process


@pytest.fixture(autouse=True)
def namesrv(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)


def done(*words: str, text: str = "", code: int = 0) -> str:
    result = run("config", *words, text=text)
    assert result.returncode == code, (result.stdout, result.stderr)
    return result.stdout + result.stderr


def test_settings_are_shown_for_each_broker() -> None:
    lines = [line.split() for line in done("get", "brokerName", "flushDisk*").splitlines()]
    assert lines[0] == ["SETTING", "broker-a", "broker-a-1"]
    assert ["brokerName", "broker-a", "broker-a-1"] in lines
    assert ["flushDiskType", "ASYNC_FLUSH", "ASYNC_FLUSH"] in lines
    one = json.loads(done("get", "--broker", "broker-a-1", "--json"))
    assert list(one) == ["broker-a-1"] and len(one["broker-a-1"]) > 100
    assert "did you mean fileReservedTime?" in done("get", "fileReservedTim", code=1)
    assert "no broker x is registered" in done("get", "--broker", "x", code=1)


def test_they_are_changed_after_a_question() -> None:
    """`rmq config set` asks before it changes a setting, and all shards have the new value then."""
    said = done("set", "fileReservedTime=48", text="n\n", code=1)
    assert "48" in said and json.loads(done("get", "fileReservedTime", "--json"))["broker-a"] == {
        "fileReservedTime": "72"}  # fmt: skip
    said = done("set", "fileReservedTime=48", "--broker", "broker-a", text="y\n")
    assert "broker-a: changed" in said
    # The shards tell each other of the change.
    wanted = {"broker-a": {"fileReservedTime": "48"}, "broker-a-1": {"fileReservedTime": "48"}}
    wait_until(lambda: json.loads(done("get", "fileReservedTime", "--json")) == wanted)
    same = "nothing to change: the settings have these values\n"
    assert done("set", "fileReservedTime=48", "--yes") == same
    said = done("set", "brokerName=x", "--yes", code=1)
    assert "refused with code 16: broker-a: " in said
    # This is one setting, although its value looks like two lines.
    said = done("set", "messageDelayLevel=1s\\ fileReservedTime=1", "--yes", code=1)
    assert json.loads(done("get", "fileReservedTime", "--json")) == wanted
    assert "not of the form KEY=VALUE" in done("set", "fileReservedTime", code=2)


def test_name_servers_have_settings_too(broker: BrokerProcess) -> None:
    assert broker.namesrv in done("get", "listenPort", "--name-servers")


def test_what_differs_is_shown() -> None:
    rows = json.loads(done("diff", "--all", "--json", code=1))
    assert "brokerName" in {row["setting"] for row in rows}
    assert json.loads(done("diff", "--json")) == []
