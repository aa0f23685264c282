"""Keeper: a client that moves two groups which nobody else moves. So what it reads must be what it
has written.

    Keeper(setting).run()       # until the setting closes

One group is moved by commits alone, always further on; the other one by resets alone, forwards and
backwards. A consumer that goes on after a commit or a reset was lost would hide that, because it
commits anew. Neither group has one. For each turn the keeper looks for the brokers anew.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster as View
from rmq.codes import RequestCode
from rmq.errors import RemoteError, RmqError
from rmq.format.fastjson import MessageQueue
from tests.ha.history import ELSEWHERE, Committed, OffsetRead, Reset
from tests.ha.setting import BROKER_NAME, COMMITS, PLAIN, RESETS, Setting

QUEUES = 2  # of the topic


class Keeper:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.committed: Counter[MessageQueue] = Counter()  # the offset that was asked for last

    def run(self) -> None:
        while not self.setting.closing.wait(self.setting.random.uniform(0.2, 0.6)):
            with contextlib.suppress(RmqError):
                self._turn()

    def _turn(self) -> None:
        since = time.monotonic_ns()
        with View(self.setting.namesrv) as view:
            for queue_id in range(QUEUES):
                queue = MessageQueue(PLAIN, BROKER_NAME, queue_id)
                for group in (COMMITS, RESETS):
                    self._read(view, group, queue, since)
                if not self.setting.resting.is_set():
                    self._commit(view, queue, since)
                    with contextlib.suppress(RemoteError):  # Apache's slaves confirm no reset
                        self._reset(view, queue)

    def _read(self, view: View, group: str, queue: MessageQueue, since: int) -> None:
        asked = time.monotonic_ns()
        offset = admin.committed_offset(view, group, queue)
        self.setting.history.add(
            OffsetRead(group=group, topic=queue.topic, broker=queue.broker_name,
                       queue_id=queue.queue_id, offset=ELSEWHERE if offset is None else offset,
                       asked=asked, since=since)
        )  # fmt: skip

    def _commit(self, view: View, queue: MessageQueue, since: int) -> None:
        self.committed[queue] += 1
        offset = self.committed[queue]
        asked, acked = time.monotonic_ns(), False
        try:
            admin.commit_offset(view, COMMITS, queue, offset)
            acked = True
        finally:
            self.setting.history.add(
                Committed(group=COMMITS, topic=queue.topic, broker=queue.broker_name,
                          queue_id=queue.queue_id, offset=offset, asked=asked, acked=acked,
                          since=since)
            )  # fmt: skip

    def _reset(self, view: View, queue: MessageQueue) -> None:
        offset = self.setting.random.randint(0, admin.max_offset(view, queue))
        fields = {"group": RESETS, "topic": queue.topic, "timestamp": -1, "isForce": True,
                  "queueId": queue.queue_id, "offset": offset}  # fmt: skip
        address = view.address_of(queue.broker_name)
        asked, acked = time.monotonic_ns(), False
        try:
            view.call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
            acked = True
        finally:
            self.setting.history.add(
                Reset(group=RESETS, topic=queue.topic, broker=queue.broker_name,
                      queue_id=queue.queue_id, offset=offset, asked=asked, acked=acked)
            )  # fmt: skip
