"""Topics at RocketMQ's brokers: what they are asked, and answers of theirs that rmq's do not give.

Method: a scripted broker that is its own name server.
"""

from __future__ import annotations

from support.scripted_peer import ScriptedPeer

from rmq.client.blocking import topics
from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format import fastjson
from rmq.format.remoting import Command

CONFIG = {"topicName": "t", "readQueueNums": 16, "writeQueueNums": 4, "perm": 6, "order": True,
          "topicFilterType": "MULTI_TAG", "topicSysFlag": 1}  # fmt: skip


class Broker:
    def __init__(self, *, is_old: bool = False) -> None:
        """is_old: a broker of RocketMQ 4, which has no request for a single topic."""
        self.is_old = is_old
        self.changes: list[dict[str, str]] = []
        self.peer = ScriptedPeer({
            Code.GET_BROKER_CLUSTER_INFO: self.cluster,
            Code.GET_TOPIC_CONFIG: self.config,
            Code.GET_ALL_TOPIC_CONFIG: lambda request: request.reply(
                body=fastjson.dumps({"topicConfigTable": {"t": CONFIG}})
            ),
            Code.UPDATE_AND_CREATE_TOPIC: self.change,
        })  # fmt: skip

    def cluster(self, request: Command) -> Command:
        row = {"brokerName": "b", "cluster": "c", "brokerAddrs": {0: self.peer.address}}
        return request.reply(body=fastjson.dumps({"brokerAddrTable": {"b": row}}))

    def config(self, request: Command) -> Command:
        if self.is_old:
            return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type 351")
        if request.fields["topic"] != "t":
            return request.reply(ResponseCode.TOPIC_NOT_EXIST, "No topic in this broker")
        return request.reply(body=fastjson.dumps(CONFIG))

    def change(self, request: Command) -> Command:
        self.changes.append(dict(request.fields))
        return request.reply()


def state_of(broker: Broker, topic: str) -> topics.TopicState | None:
    with broker.peer, Cluster(broker.peer.address) as cluster:
        ((_, state),) = topics.states(cluster, topic)
        if state is not None:
            topics.change(cluster, state, read_queues=8)
        return state


def test_all_that_is_not_named_is_sent_as_it_is() -> None:
    """Every field that the command does not change must be sent with its present value: RocketMQ's
    brokers refuse a request that lacks one."""
    broker = Broker()
    state = state_of(broker, "t")
    assert state is not None and (state.read_queues, state.write_queues) == (16, 4)
    assert broker.changes == [{
        "topic": "t", "defaultTopic": "TBW102", "readQueueNums": "8", "writeQueueNums": "4",
        "perm": "6", "order": "true", "topicFilterType": "MULTI_TAG", "topicSysFlag": "1",
    }]  # fmt: skip


def test_a_broker_of_rocketmq_4_is_asked_for_all_of_its_topics() -> None:
    state = state_of(Broker(is_old=True), "t")
    assert state is not None and state.order
    assert state_of(Broker(is_old=True), "other") is None
    assert state_of(Broker(), "other") is None
