"""Brokers that are known by host names: a host is reached at its present address, and a host that
cannot be found holds up only itself.

The resolver is the test's own. Not shown here: how long the machine's resolver keeps an old answer.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
from support.scripted_cluster import Cluster, stored
from support.waiting import wait_until

from rmq import Message, Producer, UnreachableError
from rmq.base.networks import is_name
from rmq.base.server_address import split_address

Hosts = dict[str, str]


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Host names, and the "ip:port" that each of them leads to; other names lead nowhere."""
    found: Hosts = {}
    of_machine = socket.getaddrinfo

    def look_up(host: str, port: int, *more: Any, **named: Any) -> Any:
        if not host.endswith(".example"):
            return of_machine(host, port, *more, **named)
        if host not in found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", split_address(found[host]))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return found


def takes(send: Callable[[], Any]) -> Callable[[], bool]:
    """Makes a check whether a broker takes the send by now."""

    def is_taken() -> bool:
        with contextlib.suppress(UnreachableError):
            send()
            return True
        return False

    return is_taken


def test_names_are_told_from_addresses() -> None:
    assert [host for host in ("10.0.0.7", "::1", "fe80::1%eth0", "broker-0.rmq", "localhost")
            if is_name(host)] == ["broker-0.rmq", "localhost"]  # fmt: skip


def test_a_host_that_has_moved_is_found_where_it_is_now(hosts: Hosts) -> None:
    with Cluster(stored) as before, Cluster(stored) as now:
        before.addresses[0] = "b0.example:10911"
        hosts["b0.example"] = before.brokers[0].address
        with before.producer() as producer:
            assert producer.send(Message("t", b"before")).is_ok
            hosts["b0.example"] = now.brokers[0].address
            before.brokers[0].__exit__()
            wait_until(takes(lambda: producer.send(Message("t", b"now"))))
        assert [each.body for each in before.sends(0)] == [b"before"]
        assert {each.body for each in now.sends(0)} == {b"now"}


def test_a_host_that_is_nowhere_holds_up_its_own_queues_alone(hosts: Hosts) -> None:
    with Cluster(stored, stored) as cluster:
        cluster.addresses[1] = "b1.example:10911"
        with cluster.producer(poll_name_server_interval=50) as producer:
            sent = [producer.send(Message("t", b"x")) for _ in range(3)]
            sent += [producer.send_async(Message("t", b"x")).result(60) for _ in range(3)]
            assert {each.broker_name for each in sent} == {"b0"}
            hosts["b1.example"] = cluster.brokers[1].address
            wait_until(lambda: producer.send(Message("t", b"x")).broker_name == "b1")


def test_a_topic_whose_hosts_are_all_nowhere_says_so(hosts: Hosts) -> None:
    with Cluster(stored) as cluster, cluster.producer() as producer:
        cluster.addresses[0] = "b0.example:10911"
        with pytest.raises(UnreachableError, match=r"b0.example:10911: no such host"):
            producer.send(Message("t", b"x"))
        hosts["b0.example"] = cluster.brokers[0].address
        assert producer.send(Message("t", b"x")).is_ok


def test_a_name_server_that_has_moved_is_found_where_it_is_now(hosts: Hosts) -> None:
    with Cluster(stored) as before, Cluster(stored) as now:
        hosts["names.example"] = before.name_server.address
        with Producer("g", namesrv_addr="names.example:9876") as producer:
            assert producer.send(Message("t", b"x")).is_ok
            hosts["names.example"] = now.name_server.address
            before.name_server.__exit__()
            wait_until(takes(lambda: producer._client.instance.routes.of("t", refresh=True)))
        assert now.name_server.requests
