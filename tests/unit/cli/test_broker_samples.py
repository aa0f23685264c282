"""Brokers that do not tell: the commands say whether they are away or refuse, and why.

Method: a scripted broker that is its own name server, which asks for no accounts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.command_line import rmq
from support.scripted_peer import ScriptedPeer

from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.format.remoting import Command

REMARK = "User: alice check signature failed."
HINT = "the password (secretKey) is wrong"
TABLE = {"brokerVersionDesc": "V5_5_0"}


@pytest.fixture
def brokers() -> Iterator[dict[str, str]]:
    """Addresses by name, at a server that is both; RMQ_.. names it. Broker `wary` refuses."""
    made: dict[str, str] = {}

    def cluster(request: Command) -> Command:
        table = {name: {"brokerName": name, "cluster": "c", "brokerAddrs": {0: address}}
                 for name, address in made.items()}  # fmt: skip
        return request.reply(body=fastjson.dumps({"brokerAddrTable": table}))

    def refuse(request: Command) -> Command:
        return request.reply(ResponseCode.NO_PERMISSION, REMARK)

    def tell(request: Command) -> Command:
        return request.reply(body=fastjson.dumps({"table": TABLE}))

    asked = Code.GET_BROKER_RUNTIME_INFO
    with (
        ScriptedPeer({Code.GET_BROKER_CLUSTER_INFO: cluster, asked: tell}) as well,
        ScriptedPeer({asked: refuse}) as wary,
    ):
        made |= {"well": well.address, "wary": wary.address}
        yield made


def test_a_refusal_is_no_silence(brokers: dict[str, str]) -> None:
    where = ("-n", brokers["well"])
    done = rmq("broker", "status", *where)
    assert done.returncode == 1 and "unreachable" not in done.stdout
    assert f"wary at {brokers['wary']}: {REMARK} ({HINT})" in done.stderr
    rows = {each["broker"]: each for each in json.loads(
        rmq("broker", "status", "--json", *where).stdout)}  # fmt: skip
    assert (rows["wary"]["state"], rows["well"]["state"]) == ("refused", "running")
    assert HINT in rows["wary"]["problem"]
    done = rmq("top", "--once", "--interval", "0.2", *where)
    assert "refused" in done.stdout and HINT in done.stderr


def test_for_monitoring_it_is_unknown(brokers: dict[str, str]) -> None:
    done = rmq("check", "brokers", "-n", brokers["well"], "--expect", "2")
    assert done.returncode == 3 and HINT in done.stdout
    brokers["gone"] = "127.0.0.1:1"
    done = rmq("check", "brokers", "-n", brokers["well"])
    assert done.returncode == 2 and "gone at 127.0.0.1:1: unreachable (cannot" in done.stdout


def test_why_one_is_unreachable_is_told(brokers: dict[str, str]) -> None:
    brokers["gone"] = "127.0.0.1:1"
    done = rmq("broker", "status", "-n", brokers["well"])
    assert "gone at 127.0.0.1:1: cannot connect (connection refused)" in done.stderr
