"""Observer: asks each broker of a round by itself, again and again, and writes down what all say.

    with Observer(cluster, history) as observer:
        observer.until_held()       # each broker has what a keeper has committed

A client asks one broker. Which offsets each of them has is known only to who asks them all: these
offsets must outlive a change of masters, whoever is elected. Controllers say which replicas are in
sync, and brokers where their logs end. Who does not answer soon is left out, so a look during a
fault may see less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from support.waiting import wait_until

from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode
from rmq.errors import RmqError
from rmq.format import fastjson
from rmq.format.remoting import Command
from tests.ha import keeper
from tests.ha.cluster import Cluster
from tests.ha.history import Held, InSync, LogEnd, Writer
from tests.ha.setting import BROKER_NAME, COMMITS, PLAIN, PULL, TOPICS

LOOK_S = 0.2  # between two looks
ANSWER_S = 1.0


class Observer:
    """Looks in a thread of its own, which may be on the clients' host."""

    def __init__(self, cluster: Cluster, history: Writer) -> None:
        self._cluster, self._history = cluster, history
        self._connections: dict[str, Connection] = {}
        self._held: set[tuple[str, int]] = set()  # (group, queue id) of which something was held
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if kind is None and self._failure is not None:
            raise AssertionError(f"the observer has failed: {self._failure!r}") from self._failure

    def until_held(self) -> None:
        """Returns when each broker was seen to have something that a keeper has committed."""
        wanted = {(COMMITS, queue_id) for queue_id in range(keeper.QUEUES)}

        def is_held() -> bool:
            assert self._failure is None, f"the observer has ended: {self._failure!r}"
            return wanted <= self._held

        wait_until(is_held)

    def _run(self) -> None:
        try:
            with self._cluster.inside():
                while not self._ending.wait(LOOK_S):
                    self._look()
        except BaseException as error:  # it is raised where the block ends
            self._failure = error
        finally:
            for connection in self._connections.values():
                connection.close()

    def _look(self) -> None:
        self._look_at_sets()
        self._look_at_logs()
        self._look_at_offsets()

    def _look_at_sets(self) -> None:
        for controller in self._cluster.controllers:
            asked = time.monotonic_ns()
            code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
            for reply in self._ask(controller.address, code, [{"rmqAll": "true"}]):
                if reply.code != 0:  # another controller leads
                    continue
                row = fastjson.loads_object(reply.body)["replicasInfoTable"].get(BROKER_NAME)
                if row is None:
                    continue
                members = tuple(str(each["brokerAddress"]) for each in row["inSyncReplicas"])
                self._history.add(
                    InSync(broker=BROKER_NAME, asked=asked, members=members,
                           master=row.get("masterAddress") or "", master_epoch=row["masterEpoch"],
                           set_epoch=row["syncStateSetEpoch"])
                )  # fmt: skip

    def _look_at_logs(self) -> None:
        for node in self._cluster.nodes.values():
            asked = time.monotonic_ns()
            for reply in self._ask(node.address, RequestCode.GET_BROKER_RUNTIME_INFO, [{}]):
                if reply.code == 0:
                    end = fastjson.loads_object(reply.body)["table"]["commitLogMaxOffset"]
                    self._history.add(
                        LogEnd(broker=BROKER_NAME, address=node.address, asked=asked, end=int(end))
                    )

    def _look_at_offsets(self) -> None:
        asked = time.monotonic_ns()
        places = [(group, queue_id) for group in (PULL, COMMITS)
                  for queue_id in range(TOPICS[PLAIN])]  # fmt: skip
        rows = [{"consumerGroup": group, "topic": PLAIN, "queueId": queue_id,
                 "setZeroIfNotFound": False} for group, queue_id in places]  # fmt: skip
        told = []
        for node in self._cluster.nodes.values():
            told.append(self._ask(node.address, RequestCode.QUERY_CONSUMER_OFFSET, rows))
            if not told[-1]:
                return
        for (group, queue_id), replies in zip(places, zip(*told, strict=True), strict=True):
            if all(reply.code == 0 for reply in replies):
                least = min(reply.int_field("offset") for reply in replies)
                self._held.add((group, queue_id))
                self._history.add(
                    Held(group=group, topic=PLAIN, broker=BROKER_NAME, queue_id=queue_id,
                         offset=least, asked=asked)
                )  # fmt: skip

    def _ask(self, address: str, code: int, rows: Sequence[Mapping[str, Any]]) -> list[Command]:
        """The answers to requests with these fields, whatever their codes; []: there are none."""
        try:
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = Connection(address, ANSWER_S)
            return connection.ask_all(code, rows, ANSWER_S)
        except RmqError:
            if (broken := self._connections.pop(address, None)) is not None:
                broken.close()
            return []
