"""Keeper: a client that moves a group which nobody else moves. So what it reads must be what it has
written.

    Keeper(setting, COMMITS).run()      # until the setting closes

The group COMMITS is moved by commits, always further on; RESETS by resets, forwards and backwards.
A consumer that goes on after a commit or a reset was lost would hide that, because it commits anew.
Neither group has one. For each turn the keeper looks for the brokers anew.
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
from tests.ha.setting import BROKER_NAME, COMMITS, PLAIN, Setting

QUEUES = 2  # of the topic


class Keeper:
    def __init__(self, setting: Setting, group: str) -> None:
        self.setting, self.group = setting, group
        self.committed: Counter[MessageQueue] = Counter()  # the offset that was asked for last

    def run(self) -> None:
        move = self._commit if self.group == COMMITS else self._reset
        while not self.setting.closing.wait(self.setting.random.uniform(0.1, 0.4)):
            since = time.monotonic_ns()
            with contextlib.suppress(RmqError), View(self.setting.namesrv) as view:
                for queue_id in range(QUEUES):
                    queue = MessageQueue(PLAIN, BROKER_NAME, queue_id)
                    self._read(view, queue, since)
                    if not self.setting.resting.is_set():
                        move(view, queue, since)

    def _read(self, view: View, queue: MessageQueue, since: int) -> None:
        asked = time.monotonic_ns()
        offset = admin.committed_offset(view, self.group, queue)
        self.setting.history.add(
            OffsetRead(group=self.group, topic=queue.topic, broker=queue.broker_name,
                       queue_id=queue.queue_id, offset=ELSEWHERE if offset is None else offset,
                       asked=asked, since=since)
        )  # fmt: skip

    def _commit(self, view: View, queue: MessageQueue, since: int) -> None:
        self.committed[queue] += 1
        offset = self.committed[queue]
        asked, acked = time.monotonic_ns(), False
        try:
            admin.commit_offset(view, self.group, queue, offset)
            acked = True
        finally:
            self.setting.history.add(
                Committed(group=self.group, topic=queue.topic, broker=queue.broker_name,
                          queue_id=queue.queue_id, offset=offset, asked=asked, acked=acked,
                          since=since)
            )  # fmt: skip

    def _reset(self, view: View, queue: MessageQueue, _: int) -> None:
        offset = self.setting.random.randint(0, admin.max_offset(view, queue))
        fields = {"group": self.group, "topic": queue.topic, "timestamp": -1, "isForce": True,
                  "queueId": queue.queue_id, "offset": offset}  # fmt: skip
        address = view.address_of(queue.broker_name)
        asked, acked = time.monotonic_ns(), False
        try:
            with contextlib.suppress(RemoteError):  # refused, or done here and not at the slaves
                view.call(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
                acked = True
        finally:
            self.setting.history.add(
                Reset(group=self.group, topic=queue.topic, broker=queue.broker_name,
                      queue_id=queue.queue_id, offset=offset, asked=asked, acked=acked)
            )  # fmt: skip
