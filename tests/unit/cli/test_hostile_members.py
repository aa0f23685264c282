"""Ids of a group's members are printed without characters that command a terminal.

rmq's brokers refuse such ids, RocketMQ's do not. Method: a scripted broker that is its own name
server.
"""

from __future__ import annotations

import pytest
from support.command_line import rmq
from support.scripted_peer import ScriptedPeer

from rmq.codes import RequestCode as Code
from rmq.format import fastjson
from rmq.format.remoting import Command

HOSTILE = "10.0.0.1@\x1b]0;owned\x07\u009b2J"
SHOWN = "10.0.0.1@\ufffd]0;owned\ufffd\ufffd2J"


def answer(**members: object) -> object:
    return lambda request: request.reply(body=fastjson.dumps(members))


@pytest.mark.parametrize("command", ["describe", "member"])
def test_the_id_of_a_member(command: str) -> None:
    def cluster(request: Command) -> Command:
        row = {"brokerName": "b", "cluster": "c", "brokerAddrs": {0: peer.address}}
        return request.reply(body=fastjson.dumps({"brokerAddrTable": {"b": row}}))

    answers = {
        Code.GET_BROKER_CLUSTER_INFO: cluster,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: answer(subscriptionGroupTable={"g": {}}),
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: answer(topicList=[]),
        Code.GET_CONSUMER_CONNECTION_LIST: answer(connectionSet=[{"clientId": HOSTILE}]),
        Code.GET_CONSUME_STATS: answer(offsetTable={}),
        Code.GET_CONSUMER_RUNNING_INFO: answer(properties={}),
        Code.GET_BROKER_RUNTIME_INFO: answer(table={}),
    }
    with ScriptedPeer(answers) as peer:  # type: ignore[arg-type]
        done = rmq("group", command, "g", "-n", peer.address)
    assert done.returncode == 0, done.stderr
    assert f"member {SHOWN}" in done.stdout
