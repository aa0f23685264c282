"""Goal: what clients and observer of a round write down is what brokers and controllers did, and
the checker finds that good.

Method: name server, brokers and a controller in this process; clients of the kinds that one broker
can serve, in threads; the round's own functions for waits and for the final read.
Cannot show: anything about faults (tests/ha/test_rounds.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.controllers import NAME, Replica, controller
from support.live_broker import live_broker
from support.name_server import in_loop, name_server
from support.waiting import wait_until

from rmq.codes import RequestCode
from tests.ha.checker import check, files_of
from tests.ha.cluster import Broker
from tests.ha.history import Committed, Held, InSync, LogEnd, Reset, Writer, of_kind, read
from tests.ha.observer import Observer
from tests.ha.round import (
    look_at_topics,
    make_topics,
    read_everything,
    settle,
    until_moved,
    until_seen,
)
from tests.ha.setting import BROKER_NAME, COMMITS, PLAIN, PULL, RESETS, Setting
from tests.ha.workload import run

KINDS = ("plain", "batches", "ordered", "commits", "resets", "topics", "operator", "read-plain")
TWICE = ("read-ordered", "pop", "pop-ordered")


class Node(SimpleNamespace):
    """A broker of this process, as far as a cluster's node is used here."""

    is_running = True
    is_master: Any = Broker.is_master


class Cluster(SimpleNamespace):
    """Brokers of this process as a cluster."""

    inside: Any = staticmethod(contextlib.nullcontext)
    copies_ms = 0
    is_told_of_changes = True

    def settle(self) -> None:
        """Nothing happens to them."""


def cluster(namesrv: str, ports: list[int], controllers: list[int]) -> Any:
    nodes = {f"b{port}": Node(address=f"127.0.0.1:{port}") for port in ports}
    deciders = [SimpleNamespace(address=f"127.0.0.1:{port}") for port in controllers]
    return Cluster(namesrv=namesrv, nodes=nodes, controllers=deciders)


def play(here: Any, histories: Path) -> None:
    """A round without a fault."""
    resting, closing = threading.Event(), threading.Event()
    failures: list[str] = []
    names = [*((kind, kind) for kind in (*KINDS, *TWICE)), *((kind, f"{kind}-2") for kind in TWICE)]
    with Writer(histories, "harness") as history, Observer(here, history) as observer:
        threads = []
        for kind, name in names:
            setting = Setting(name, here.namesrv, Writer(histories, name), Random(name), resting,
                              closing)  # fmt: skip
            threads.append(threading.Thread(target=run, args=(kind, setting, failures)))
            threads[-1].start()
        try:
            until_moved(histories, here)
            observer.until_held()
            settle(here, histories, history)
            until_seen(
                histories,
                {COMMITS, RESETS, PULL},
                lambda each: isinstance(each, Committed | Reset) and each.offset > 1,
            )
            wait_until(lambda: any(topic_deleted(path) for path in histories.glob("topics.jsonl")))
            resting.set()
            reader = read_everything(here, histories, history)
        finally:
            resting.set()
            closing.set()
            for thread in threads:
                thread.join()
        reader.finish()
        look_at_topics(here, history)
    assert failures == []


def topic_deleted(path: Path) -> bool:
    return b'"deletes":true' in path.read_bytes()


@in_loop
async def test_clients_of_a_broker_without_a_fault_break_no_rule(tmp_path: Path) -> None:
    histories = tmp_path / "histories"
    histories.mkdir()
    async with name_server() as server:
        namesrv = f"127.0.0.1:{server.port}"
        async with live_broker(
            tmp_path / "store", brokerName=BROKER_NAME, namesrvAddr=namesrv
        ) as broker:
            here = cluster(namesrv, [broker.core.port], [])
            await asyncio.to_thread(make_topics, here)
            await asyncio.to_thread(play, here, histories)
    findings = check(files_of([histories]), [[tmp_path / "store"]], all_copies=True)
    assert findings.violations == []
    counts = findings.counts
    assert counts["topics made"] > 1 and counts["topics deleted"] > 0
    assert counts["batches"] > 1 and counts["batches in part"] == 0
    assert counts["members of groups in order"] > 1
    assert counts["duplicates"] < counts["delivered"]


@in_loop
async def test_an_offset_is_held_when_each_broker_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.ha.observer.BROKER_NAME", NAME["brokerName"])
    async with (
        live_broker(tmp_path / "a") as one, live_broker(tmp_path / "b") as other,
        controller(tmp_path) as server, Replica(server.port, 1) as first,
    ):  # fmt: skip
        assert (await first.join()).code == 0
        assert (await first.elect()).code == 0
        for broker, offset in ((one, 7), (other, 5)):
            async with BrokerClient(broker.core.port) as client:
                await made(client)
                place = {"consumerGroup": COMMITS, "topic": PLAIN, "queueId": 0}
                code = RequestCode.UPDATE_CONSUMER_OFFSET
                assert (await client.call(code, **place, commitOffset=offset)).code == 0
                if broker is one:  # what one of them lacks is not held
                    place["queueId"] = 1
                    assert (await client.call(code, **place, commitOffset=9)).code == 0
        ports = [one.core.port, other.core.port]
        here = cluster("", ports, [server.port])
        await asyncio.to_thread(look_for_a_while, here, tmp_path)
    events = list(read([tmp_path / "observer.jsonl"]))
    held = of_kind(events, Held)
    assert {(each.group, each.queue_id, each.offset) for each in held} == {(COMMITS, 0, 5)}
    assert all(each.asked < each.at for each in held)
    sets = {(each.members, each.master, each.master_epoch, each.set_epoch)
            for each in of_kind(events, InSync)}  # fmt: skip
    assert sets == {((first.address,), first.address, 1, 1)}
    ends = {each.address: each.end for each in of_kind(events, LogEnd)}
    assert ends.keys() == {f"127.0.0.1:{port}" for port in ports}


def look_for_a_while(here: Any, folder: Path) -> None:
    with Writer(folder, "observer") as history, Observer(here, history):
        wait_until(lambda: b'"held"' in history.path.read_bytes())


async def made(client: BrokerClient) -> None:
    """Makes the topic, and a group."""
    fields = {"topic": PLAIN, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4,
              "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}  # fmt: skip
    assert (await client.call(RequestCode.UPDATE_AND_CREATE_TOPIC, **fields)).code == 0
    body = b'{"groupName":"%s","consumeEnable":true}' % COMMITS.encode()
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    assert (await client.call(code, body)).code == 0
