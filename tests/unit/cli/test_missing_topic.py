"""Every command reports in the same words that a topic does not exist."""

from __future__ import annotations

import pytest
from support.command_line import rmq
from support.scripted_peer import ScriptedPeer
from support.source_tree import ROOT

from rmq.cli.missing_topic import MissingTopicError, in_words
from rmq.errors import RemoteError
from rmq.format import fastjson
from rmq.format.remoting import Command


def test_the_answer_is_put_into_words_and_others_stay() -> None:
    with pytest.raises(MissingTopicError, match="nobody has died"), in_words("nobody has died"):
        raise RemoteError(17, "No topic route info in name server for the topic: %DLQ%g")
    with pytest.raises(RemoteError, match="code 16"), in_words("nobody has died"):
        raise RemoteError(16, "no")


def test_no_command_has_another_way() -> None:
    found = {path.name for path in (ROOT / "rmq/cli").glob("*.py")
             if "TOPIC_NOT_EXIST" in path.read_text() or "says that it does not exist\n"
             "            raise" in path.read_text()}  # fmt: skip
    assert found == {"missing_topic.py"}


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "update", "t", "--queues", "4"),
        ("topic", "perm", "t"),
        ("topic", "copy", "t", "u"),
    ],
)
def test_a_topic_of_no_broker_is_refused_as_the_name_server_does(words: tuple[str, ...]) -> None:
    broker = {"brokerName": "a", "cluster": "c", "brokerAddrs": {"0": ""}}

    def brokers(request: Command) -> Command:
        broker["brokerAddrs"] = {"0": peer.address}
        return request.reply(0, body=fastjson.dumps({"brokerAddrTable": {"a": broker}}))

    answers = {106: brokers, 351: lambda request: request.reply(17, "no t"),
               105: lambda request: request.reply(17, "no route of t")}  # fmt: skip
    with ScriptedPeer(answers) as peer:
        done = rmq(*words, "-n", peer.address)
    assert done.returncode == 1
    assert "code 17: no route of t" in done.stderr and "rmq topic create NAME" in done.stderr
