"""Final read: all that a cluster holds of some topics, each queue from its first offset to its end.

    reader = FinalReader(namesrv, history)
    reader.read_on(topics)      # writes what has come since the last call into the history
    reader.finish()             # the rest, and how far each queue was read

Only the offsets of the queues count: there is no group, no filter, and the broker may not move the
reader on.
"""

from __future__ import annotations

from collections.abc import Iterable

from rmq.client.blocking.cluster import Cluster
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.format.message import decode_messages
from tests.ha.history import Delivered, Drained, Writer

WITH_SUBSCRIPTION = 4
GROUP = "ha-final"


class FinalReader:
    def __init__(self, namesrv: str, history: Writer) -> None:
        self._cluster = Cluster(namesrv)
        self._topics: list[str] = []
        self._history = history
        self._begins: dict[MessageQueue, int] = {}
        self._positions: dict[MessageQueue, int] = {}
        self.found: set[str] = set()

    def read_on(self, topics: Iterable[str]) -> None:
        """A topic that is not there (yet) is left out."""
        self._topics = sorted(topics)
        for topic in self._topics:
            for queue in self._queues(topic):
                self._read(queue)

    def _queues(self, topic: str) -> list[MessageQueue]:
        try:
            return self._cluster.route(topic).readable()
        except RemoteError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return []

    def finish(self) -> None:
        """The last read; nothing is sent any more."""
        self.read_on(self._topics)
        for queue, end in self._positions.items():
            self._history.add(
                Drained(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id,
                        begin=self._begins[queue], end=end)
            )  # fmt: skip
        self._cluster.close()

    def _ask(self, code: int, queue: MessageQueue) -> int:
        fields = {"topic": queue.topic, "queueId": queue.queue_id}
        return self._cluster.broker(queue.broker_name).call(code, fields).int_field("offset")

    def _read(self, queue: MessageQueue) -> None:
        if queue not in self._begins:
            self._begins[queue] = self._ask(RequestCode.GET_MIN_OFFSET, queue)
        at = self._positions.get(queue, self._begins[queue])
        end = self._ask(RequestCode.GET_MAX_OFFSET, queue)
        while at < end:
            at = self._pull(queue, at)
        self._positions[queue] = at

    def _pull(self, queue: MessageQueue, at: int) -> int:
        """Pulls once and writes down what came; returns the offset at which to go on."""
        fields = {
            "consumerGroup": GROUP, "topic": queue.topic, "queueId": queue.queue_id,
            "queueOffset": at, "maxMsgNums": 32, "sysFlag": WITH_SUBSCRIPTION, "commitOffset": 0,
            "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
            "expressionType": "TAG",
        }  # fmt: skip
        broker = self._cluster.broker(queue.broker_name)
        reply = broker.ask(RequestCode.PULL_MESSAGE, fields)
        if reply.code != ResponseCode.SUCCESS:
            raise RemoteError(reply.code, f"{queue} at {at}: {reply.remark}")
        for stored in decode_messages(reply.body):
            name = stored.body.split(b" ", 1)[0].decode(errors="replace")
            self.found.add(name)
            self._history.add(
                Delivered(message=name, group=GROUP, topic=queue.topic, broker=queue.broker_name,
                          queue_id=stored.queue_id, offset=stored.queue_offset, how="final",
                          log_offset=stored.physical_offset)
            )  # fmt: skip
            at = stored.queue_offset + 1
        return at
