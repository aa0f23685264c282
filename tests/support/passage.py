"""Passage: a name server that passes requests on to another one, until it is shut.

    with Passage(broker.namesrv) as passage:
        Cluster(passage.address)        asks the name server behind it
        passage.shut()                  nobody listens at the address any more
        passage.open()                  it is passed on again
        passage.open(EMPTIED)           or answered as one that nobody told anything yet
        passage.hide("127.0.0.1:10911")     a broker that it lists, and that cannot be reached

For tests of what follows when servers go and come back: brokers stay, and nothing starts.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from support.console import NOBODY
from support.scripted_peer import Answer, ScriptedPeer

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode as Code
from rmq.codes import ResponseCode
from rmq.format.remoting import Command


class Passage:
    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._passed: dict[int, Answer] = dict.fromkeys(Code, self._pass_on)
        self._peer = ScriptedPeer(self._passed)
        self.address = self._peer.address
        self._hidden: list[bytes] = []

    def hide(self, address: str) -> None:
        """From now on nobody is at the address that answers have for this one."""
        self._hidden.append(address.encode())

    def _pass_on(self, request: Command) -> Command:
        with Connection(self._namesrv) as connection:
            reply = connection.ask(request.code, request.fields, request.body)
        body = reply.body
        for address in self._hidden:
            body = body.replace(address, NOBODY.encode())
        return msgspec.structs.replace(reply, opaque=request.opaque, body=body)

    def shut(self) -> None:
        self._peer.__exit__()

    def open(self, answers: Mapping[int, Answer] | None = None) -> None:
        port = int(self.address.rpartition(":")[2])
        self._peer = ScriptedPeer({**self._passed, **(answers or {})}, port=port)

    def __enter__(self) -> Passage:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()


def _unknown(request: Command) -> Command:
    return request.reply(ResponseCode.TOPIC_NOT_EXIST, "No topic route info in name server")


# What a name server says after its start, before brokers have registered.
EMPTIED: dict[int, Answer] = {
    Code.GET_ROUTEINFO_BY_TOPIC: _unknown,
    Code.GET_BROKER_CLUSTER_INFO: lambda request: request.reply(
        body=b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    ),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda request: request.reply(
        body=b'{"topicList":[]}'
    ),
}
