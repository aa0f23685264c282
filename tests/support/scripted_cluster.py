"""Scripted cluster: a name server and brokers that answer sends as a test says.

with Cluster(refused(14), stored) as cluster, cluster.producer() as producer:
    producer.send(Message("t", b"x"))
    cluster.sends(0)                    # the sends that the first broker has received
    cluster.brokers[0].__exit__()       # the broker goes
    cluster.reopen(0, stored)           # and comes back
    cluster.addresses[0] = "b.example:1"        # its address in the route, from now on
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any

from support.scripted_peer import ScriptedPeer

from rmq import Producer
from rmq.codes import RequestCode as Code
from rmq.format import fastjson
from rmq.format.remoting import Command


class Cluster:
    """A name server and some brokers. Each is a scripted peer; brokers have queues of topic t."""

    def __init__(
        self, *answers: Callable[[Command], Any], context: ssl.SSLContext | None = None,
        queues: int = 1,
    ) -> None:  # fmt: skip
        """With a `context`, all of them speak TLS."""
        self._context = context
        self._queues = queues
        self.brokers = [self._broker(answer) for answer in answers]
        self.topic = "t"
        self.addresses = [peer.address for peer in self.brokers]
        self.name_server = ScriptedPeer({Code.GET_ROUTEINFO_BY_TOPIC: self._find}, context)

    def _broker(self, answer: Callable[[Command], Any], port: int = 0) -> ScriptedPeer:
        answers = {
            Code.SEND_MESSAGE_V2: answer, Code.SEND_BATCH_MESSAGE: answer,
            Code.HEART_BEAT: lambda request: request.reply(),
            Code.UNREGISTER_CLIENT: lambda request: request.reply(),
        }  # fmt: skip
        return ScriptedPeer(answers, self._context, port)

    def reopen(self, number: int, answer: Callable[[Command], Any]) -> None:
        """Starts a broker that has gone again, at its address."""
        self.brokers[number] = self._broker(answer, port_of(self.brokers[number]))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in (*self.brokers, self.name_server):
            peer.__exit__()

    def _find(self, request: Command) -> Command:
        if request.fields["topic"] != self.topic:
            return request.reply(17, "no such topic")
        names = [f"b{i}" for i in range(len(self.addresses))]
        route = fastjson.dumps({
            "brokerDatas": [{"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address}}
                            for name, address in zip(names, self.addresses, strict=True)],
            "queueDatas": [{"brokerName": name, "perm": 6, "readQueueNums": self._queues,
                            "writeQueueNums": self._queues} for name in names],
        })  # fmt: skip
        return request.reply(0, None, None, route)

    def producer(self, **changes: Any) -> Producer:
        return Producer("g", namesrv_addr=self.name_server.address, **changes)

    def sends(self, number: int) -> list[Command]:
        codes = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE)
        return [each for each in self.brokers[number].requests if each.code in codes]


def port_of(peer: ScriptedPeer) -> int:
    return int(peer.address.rpartition(":")[2])


def stored(request: Command) -> Command:
    return request.reply(0, None, {"msgId": "F" * 32, "queueId": 0, "queueOffset": 7})


def refused(code: int) -> Callable[[Command], Command]:
    return lambda request: request.reply(code, "busy")


def silent(request: Command) -> None:
    return None
