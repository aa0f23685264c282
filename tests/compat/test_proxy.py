"""The gRPC clients of RocketMQ 5 at Apache's proxy 5.5.0, which stands before the broker.

Method: the proxy in a process of its own, CLUSTER mode; Java's client 5.2.0 and Node's 1.0.8,
unchanged, are told the same (grpc_clients.py), and what they get is compared here. Groups begin at
the beginning of their queues; the proxy would let them begin at the end. Cannot prove: lite topics
and priorities, which rmq does not have, and the proxy's LOCAL mode, which is a broker of Apache's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compat.grpc_clients import CLIENTS, GrpcClient, Received, proxy_settings
from compat.new_groups import make_topic_and_group
from compat.targets import Target
from support.waiting import wait_until

from rmq.client.blocking.cluster import Cluster
from tools.peers.proxy import ApacheProxy

COUNT = 12
DELAY_MS = 4_000


@pytest.fixture(scope="module")
def proxy(types_target: Target, compat_folder: Path) -> Iterator[ApacheProxy]:
    proxy = ApacheProxy(compat_folder / "proxy", types_target.name_server, proxy_settings(0))
    proxy.server.start()
    yield proxy
    proxy.server.kill()


@pytest.fixture(scope="module", params=CLIENTS)
def client(
    request: pytest.FixtureRequest, proxy: ApacheProxy, compat_folder: Path
) -> Iterator[GrpcClient]:
    runner = CLIENTS[request.param](compat_folder / request.param)
    yield GrpcClient(runner, proxy.endpoints)
    runner.close()


Places = Callable[..., tuple[str, str]]


@pytest.fixture
def place(request: pytest.FixtureRequest, types_target: Target, session_id: str) -> Places:
    """place("FIFO") makes a topic for messages of this type and a group that gets all of them."""
    name = "".join(each if each.isalnum() else "_" for each in request.node.name)

    def make(message_type: str, **settings: object) -> tuple[str, str]:
        topic, group = f"{session_id}_{name}", f"g_{session_id}_{name}"
        with Cluster(types_target.name_server) as cluster:
            attributes = {"message.type": message_type}
            make_topic_and_group(cluster, topic, group, attributes=attributes, **settings)
        return topic, group

    return make


def check(found: list[Received], topic: str, ids: list[str], tag: str | None = None) -> None:
    """All messages came, each once and as it was sent."""
    assert sorted(each.n for each in found) == list(range(len(ids)))
    for each in found:
        assert each.id == ids[each.n]
        assert (each.topic, each.tag, each.attempt) == (topic, tag, 1)
        assert (each.body, each.keys) == (f"body-{each.n}", f"k{each.n}")


def test_a_push_consumer_gets_what_was_sent(client: GrpcClient, place: Places) -> None:
    topic, group = place("NORMAL")
    with client.push(topic, group, tag="one") as received:
        client.send(topic, COUNT, tag="other")
        ids = client.send(topic, COUNT, tag="one")
        wait_until(lambda: len(received()) >= COUNT)
        check(received(), topic, ids, "one")


def test_a_simple_consumer_acknowledges_or_gets_it_again(client: GrpcClient, place: Places) -> None:
    topic, group = place("NORMAL")
    ids = client.send(topic, COUNT)
    with client.simple(topic, group) as receive:
        first = receive(ack=False, invisibleMs=10_000)
        found: list[Received] = []
        wait_until(lambda: found.extend(receive()) or len(found) >= COUNT)
        assert not receive()
    assert sorted(each.n for each in found) == list(range(COUNT))
    seen = Counter(each.n for each in first)
    assert seen and set(seen.values()) == {1}
    for each in found:
        assert (each.id, each.attempt) == (ids[each.n], 1 + seen[each.n])


def test_what_is_refused_is_delivered_once_more(client: GrpcClient, place: Places) -> None:
    topic, group = place("NORMAL")
    ids = client.send(topic, COUNT)
    with client.push(topic, group, failures=1) as received:
        wait_until(lambda: len(received()) >= 2 * COUNT)
        found = received()
    assert Counter((each.id, each.attempt) for each in found) == Counter(
        (each, attempt) for each in ids for attempt in (1, 2)
    )


def test_messages_of_a_group_come_in_order(client: GrpcClient, place: Places) -> None:
    topic, group = place("FIFO", consumeMessageOrderly=True)
    ids = client.send(topic, 30, groups="red,green,blue")
    with client.push(topic, group) as received:
        wait_until(lambda: len(received()) >= 30)
        found = received()
    check(found, topic, ids)
    for rest, colour in enumerate(("red", "green", "blue")):
        assert [each.n for each in found if each.group == colour] == list(range(rest, 30, 3))


def test_delayed_messages_come_when_it_is_time(client: GrpcClient, place: Places) -> None:
    topic, group = place("DELAY")
    with client.push(topic, group) as received:
        begin_ms = time.time_ns() // 1_000_000
        ids = client.send(topic, COUNT, delayMs=DELAY_MS)
        wait_until(lambda: len(received()) >= COUNT)
        found = received()
    check(found, topic, ids)
    assert min(each.atMs for each in found) >= begin_ms + DELAY_MS


def test_transactions_are_committed_and_rolled_back(client: GrpcClient, place: Places) -> None:
    topic, group = place("TRANSACTION")
    with (
        client.transactions(topic, COUNT, "rollback", tag="undone"),
        client.transactions(topic, COUNT, "commit", tag="done"),
        client.push(topic, group) as received,
    ):
        wait_until(lambda: len(received()) >= COUNT)
        found = received()
    assert [each.tag for each in found] == ["done"] * COUNT
    assert sorted(each.n for each in found) == list(range(COUNT))


def test_open_transactions_are_asked_about(client: GrpcClient, place: Places) -> None:
    topic, group = place("TRANSACTION")
    with (
        client.push(topic, group) as received,
        client.transactions(topic, COUNT, "open") as asked,
    ):
        wait_until(lambda: len(asked()) == COUNT and len(received()) >= COUNT // 2)
        found = received()
    assert sorted(each.n for each in found) == list(range(0, COUNT, 2))
