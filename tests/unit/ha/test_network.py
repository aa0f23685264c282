"""Goal: the hosts of a test's network reach each other as far as the test lets them, and leave
nothing behind.

Method: echo servers as processes in network namespaces. Skipped without root or iproute2.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.waiting import HANG_S, wait_until

from tests.ha import network
from tests.ha.network import NAMESPACES, Network

ASKED_AGAIN_S = 1.0
LATE_MS = 100
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7000))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(100); s.sendto(data, peer)
"""


@pytest.fixture
def hosts() -> Iterator[Network]:
    if reason := network.missing():
        pytest.skip(reason)
    with Network(["a", "b", "c"]) as made:
        servers = [
            subprocess.Popen(host.command([sys.executable, "-c", ECHO, host.address]),
                             stdout=subprocess.PIPE)
            for host in made.hosts.values()
        ]  # fmt: skip
        for server in servers:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        yield made
    for server in servers:  # they ended with their namespaces
        server.wait(HANG_S)
        assert server.stdout is not None
        server.stdout.close()


def reaches(made: Network, one: str, other: str, seconds: float = 60) -> bool:
    """Whether an answer comes, so that both directions are open. The other process may take some
    time, and a datagram may be lost when a busy machine is slow to resolve an address."""
    until = time.monotonic() + seconds
    with made.inside(one), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        while (left := until - time.monotonic()) > 0:
            asking.settimeout(min(left, ASKED_AGAIN_S))
            with contextlib.suppress(TimeoutError):
                asking.sendto(b"?", (made.hosts[other].address, 7000))
                return asking.recv(10) == b"?"
    return False


def test_links_are_cut_and_healed(hosts: Network) -> None:
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    assert all(reaches(hosts, *pair) for pair in pairs)
    hosts.cut([["a", "b"], ["b", "c"]])  # b still reaches both
    assert reaches(hosts, *pairs[0]) and reaches(hosts, *pairs[2])
    assert not reaches(hosts, *pairs[1], seconds=0.3)
    hosts.heal()
    assert all(reaches(hosts, *pair) for pair in pairs)


def test_one_way_is_closed_and_the_other_one_open(hosts: Network) -> None:
    hosts.drop("a", "b")
    with hosts.inside("a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a:
        a.bind((hosts.hosts["a"].address, 7001))
        with hosts.inside("b"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
            b.bind((hosts.hosts["b"].address, 7001))
            b.settimeout(0.3)
            a.settimeout(ASKED_AGAIN_S)

            def reached_a() -> bool:
                b.sendto(b"to a", (hosts.hosts["a"].address, 7001))
                with contextlib.suppress(TimeoutError):
                    return a.recv(10) == b"to a"
                return False

            wait_until(reached_a)
            a.sendto(b"to b", (hosts.hosts["b"].address, 7001))
            with pytest.raises(TimeoutError):
                b.recv(10)


def test_an_open_connection_feels_the_cut_too(hosts: Network) -> None:
    with hosts.inside("a"), socket.create_server((hosts.hosts["a"].address, 7002)) as server:
        with hosts.inside("b"):
            client = socket.create_connection((hosts.hosts["a"].address, 7002))
        with client, server.accept()[0] as accepted:
            client.sendall(b"1")
            assert accepted.recv(1) == b"1"
            hosts.drop("b", "a")
            client.sendall(b"2")
            accepted.settimeout(0.3)
            with pytest.raises(TimeoutError):
                accepted.recv(1)
            hosts.heal()  # then what was under way arrives
            accepted.settimeout(HANG_S)
            assert accepted.recv(1) == b"2"


def test_what_a_killed_test_left_is_swept_away(
    hosts: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names have a prefix for which no other run, sweeping at the same time, looks."""
    monkeypatch.setattr(network, "PREFIX", f"rmqhat{os.getpid()}x")
    ended = subprocess.Popen(["true"])
    ended.wait()
    name = f"{network.PREFIX}{ended.pid}-a"
    network.ip("netns", "add", name)
    lives_on = subprocess.Popen(["nsenter", f"--net={network.NAMESPACES / name}", "sleep", "600"])
    wait_until(lambda: str(lives_on.pid) in network.ip("netns", "pids", name))
    assert network.sweep() == [name]
    assert lives_on.wait(HANG_S) == -9
    assert not (NAMESPACES / name).exists()
    assert all((NAMESPACES / host.namespace).exists() for host in hosts.hosts.values())


def test_several_runs_sweep_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each leftover must be swept by one of the runs, and no run may fail because of the others."""
    if reason := network.missing():
        pytest.skip(reason)
    monkeypatch.setattr(network, "PREFIX", f"rmqhau{os.getpid()}x")
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f"{network.PREFIX}{ended.pid}-{number}" for number in range(4)]
    for name in names:
        network.ip("netns", "add", name)
    with ThreadPoolExecutor(4) as runs:
        swept = [name for each in runs.map(lambda _: network.sweep(), range(4)) for name in each]
    assert sorted(swept) == names


def test_what_a_slow_host_sends_comes_late(hosts: Network) -> None:
    hosts.delay("a", LATE_MS)
    began = time.monotonic()
    assert reaches(hosts, "a", "b")  # b's answer is late only if a's question is
    assert time.monotonic() - began >= LATE_MS / 1000
    began = time.monotonic()
    assert reaches(hosts, "b", "a")
    assert time.monotonic() - began >= LATE_MS / 1000
    assert reaches(hosts, "b", "c")


def test_what_a_slow_host_sends_comes_whole(hosts: Network) -> None:
    """Everything must arrive, also what is larger than a packet of the link, and on a connection
    that was there before."""
    sent = os.urandom(4 << 20)
    with hosts.inside("a"), socket.create_server((hosts.hosts["a"].address, 7002)) as server:
        with hosts.inside("b"):
            client = socket.create_connection((hosts.hosts["a"].address, 7002))
        with client, server.accept()[0] as accepted, ThreadPoolExecutor(2) as threads:
            client.settimeout(HANG_S)
            accepted.settimeout(HANG_S)
            hosts.delay("a", 5)
            for one, other in ((accepted, client), (client, accepted)):
                sending = threads.submit(one.sendall, sent)
                assert received(other, len(sent)) == sent
                sending.result()
            hosts.delay("a", 0)
            accepted.sendall(b"!")
            assert client.recv(1) == b"!"


def received(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        came = connection.recv(1 << 20)
        assert came, f"the connection ended after {len(found)} bytes"
        found += came
    return bytes(found)
