"""Recording name server: a second name server, which notes the topics that shards register.

    with RecordingNameServer() as told, sharded_broker(tmp_path, 3, told.options) as broker:
        ...                                             # topic t is made
        wait_until(lambda: told.brokers("t") == {"broker-a", "broker-a-1", "broker-a-2"})

A shard registers a topic alone (217), or together with all topics (103) under a new version. Every
60 s it registers all of them again under the old version, which is not counted here: so a test can
show that a shard did not wait for this repetition, however long the test takes.
"""

from __future__ import annotations

import json
from typing import Any

from support.scripted_peer import Answer, ScriptedPeer

from rmq.codes import RequestCode as Code
from rmq.format.remoting import Command


class RecordingNameServer(ScriptedPeer):
    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()  # broker name, topic
        self._versions: dict[str, Any] = {}  # version of the last table, by broker name
        answers: dict[int, Answer] = {
            Code.REGISTER_BROKER: self._take_table,
            Code.REGISTER_TOPIC_IN_NAMESRV: self._take_topic,
            Code.UNREGISTER_BROKER: lambda request: request.reply(),
        }
        super().__init__(answers)

    @property
    def options(self) -> tuple[str, str]:
        """Options of brokers that must register here as well."""
        return ("--set", f"namesrvAddr={self.address}")

    def brokers(self, topic: str) -> set[str]:
        """The brokers that have registered the topic."""
        return {broker for broker, told in self._told.copy() if told == topic}

    def _take_table(self, request: Command) -> Command:
        wrapper = json.loads(request.body)["topicConfigSerializeWrapper"]
        broker, version = request.fields["brokerName"], wrapper["dataVersion"]
        if self._versions.get(broker) != version:
            self._versions[broker] = version
            self._told |= {(broker, topic) for topic in wrapper["topicConfigTable"]}
        return request.reply()

    def _take_topic(self, request: Command) -> Command:
        (row,) = json.loads(request.body)["queueDatas"]
        self._told.add((row["brokerName"], request.fields["topic"]))
        return request.reply()
