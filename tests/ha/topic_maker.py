"""Topic maker: a client that makes topics, and deletes some of them.

    TopicMaker(setting).run()       # until the setting rests

A topic either gets messages, and stays, or none, and is deleted sooner or later. So what the
checker finds at the end is certain.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial

from rmq import Message, Producer, RmqError
from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster as View
from tests.ha.history import Sending, TopicChanged
from tests.ha.sends import body, send
from tests.ha.setting import MADE, QUICK, Setting

MESSAGES = 3  # of a topic, at most


class TopicMaker:
    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.made = 0
        self.going: list[str] = []  # topics that are to be deleted

    def run(self) -> None:
        with Producer(
            f"{MADE}producers", namesrv_addr=self.setting.namesrv,
            retry_times_when_send_failed=0, **QUICK,
        ) as producer:  # fmt: skip
            while not self.setting.resting.wait(self.setting.random.uniform(0.3, 1.0)):
                with contextlib.suppress(RmqError), View(self.setting.namesrv) as view:
                    self._turn(view, producer)

    def _turn(self, view: View, producer: Producer) -> None:
        self.made += 1
        topic = f"{MADE}{self.made}"
        self._change(topic, partial(admin.create_topic, view, topic, 1))
        if self.setting.random.random() < 0.5:
            self.going.append(topic)
        else:
            view.route(topic)  # without a route the producer would make the topic by its send
            self._send(producer, topic)
        if self.going and self.setting.random.random() < 0.5:
            topic = self.going.pop(0)
            self._change(topic, partial(admin.delete_topic, view, topic), deletes=True)

    def _change(self, topic: str, call: Callable[[], object], deletes: bool = False) -> None:
        asked, acked = time.monotonic_ns(), False
        try:
            call()
            acked = True
        finally:
            self.setting.history.add(
                TopicChanged(topic=topic, asked=asked, deletes=deletes, acked=acked)
            )

    def _send(self, producer: Producer, topic: str) -> None:
        for number in range(self.setting.random.randint(1, MESSAGES)):
            name = f"{self.setting.name}/{topic}.{number}"
            message = Message(topic, body(name, self.setting.random))
            sending = Sending(message=name, topic=topic)
            send(self.setting, sending, partial(producer.send, message))
