"""Masters that do not answer are left out once they were asked, unless none of them answers."""

from __future__ import annotations

import pytest
from support.scripted_peer import ScriptedPeer

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing, require_all
from rmq.codes import RequestCode as Code
from rmq.errors import PartialError, UnreachableError
from rmq.format import fastjson
from rmq.format.remoting import Command

NOBODY = "127.0.0.1:1"


class Brokers:
    """A name server that is also the master of broker b; there are others, as a test says."""

    def __init__(self, **others: str) -> None:
        self.others = others
        self.peer = ScriptedPeer({
            Code.GET_BROKER_CLUSTER_INFO: self.cluster,
            Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda request: request.reply(
                body=fastjson.dumps({"subscriptionGroupTable": {"g": {"groupName": "g"}}})
            ),
        })  # fmt: skip

    def cluster(self, request: Command) -> Command:
        table = {name: {"brokerName": name, "cluster": "c", "brokerAddrs": {0: address}}
                 for name, address in ({"b": self.peer.address} | self.others).items()}  # fmt: skip
        return request.reply(body=fastjson.dumps({"brokerAddrTable": table}))


def test_what_the_others_have_is_answered_and_who_was_silent_is_named() -> None:
    brokers, missing = Brokers(a=NOBODY, c=NOBODY), Missing()
    with brokers.peer, Cluster(brokers.peer.address) as cluster:
        assert list(admin.groups(cluster, missing)) == ["g"]
        with pytest.raises(UnreachableError, match=NOBODY):
            admin.groups(cluster)
    assert missing.keys() == {"a", "c"} and all(NOBODY in why for why in missing.values())
    text = f"^what lies there alone is missing: a: {NOBODY}: .*; c: {NOBODY}: "
    with pytest.raises(PartialError, match=text):
        require_all(missing)


def test_who_was_silent_is_not_asked_again() -> None:
    with ScriptedPeer({}) as other:
        brokers, missing = Brokers(a=other.address), Missing(a="it does not answer")
        with brokers.peer, Cluster(brokers.peer.address) as cluster:
            assert list(admin.groups(cluster, missing)) == ["g"]
        assert other.requests == []


def test_who_did_not_answer_another_question_is_not_asked_either() -> None:
    """All questions of a console's page know who was silent a moment ago."""
    with ScriptedPeer({}) as other:
        brokers, missing = Brokers(a=other.address), Missing()
        with brokers.peer, Cluster(brokers.peer.address) as cluster:
            cluster.replicas.gone(other.address)
            assert list(admin.groups(cluster, missing)) == ["g"]
        assert other.requests == [] and missing.keys() == {"a"}


def test_if_nobody_answers_that_is_all_there_is_to_say() -> None:
    brokers, missing = Brokers(b=NOBODY), Missing()
    with brokers.peer, Cluster(brokers.peer.address) as cluster:
        for _ in range(2):
            with pytest.raises(UnreachableError, match=f"^{NOBODY}: "):
                admin.groups(cluster, missing)
    require_all(Missing())
