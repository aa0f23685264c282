"""Addresses of servers: what is one, and that whoever is given another says so in one way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmq import ConfigError, Producer, ProtocolError
from rmq.base.server_address import split_address
from rmq.client.blocking.cluster import Cluster
from rmq.errors import AddressError
from rmq.serving.remoting_client import CallError, parse_address


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.7:9876", ("10.0.0.7", 9876)),
        (" broker-0.rmq:10911 ", ("broker-0.rmq", 10911)),
        ("[::1]:80", ("::1", 80)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),  # where any free port may be listened on
        ("h:65535", ("h", 65535)),
    ],
)
def test_addresses_are_host_and_port(text: str, found: tuple[str, int]) -> None:
    assert split_address(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'': not an address of the form host:port (no port is given)"),
        ("host", "host: not an address of the form host:port (no port is given)"),
        (":1", ":1: not an address of the form host:port (no host is given)"),
        ("host:", "('' is no port: 0 to 65535)"),
        ("host:x", "('x' is no port: 0 to 65535)"),
        ("h:²", "('²' is no port: 0 to 65535)"),
        ("host:-1", "('-1' is no port: 0 to 65535)"),
        ("host:65536", "('65536' is no port: 0 to 65535)"),
    ],
)
def test_what_is_none_is_refused_with_the_cause_and_the_way_out(text: str, why: str) -> None:
    with pytest.raises(AddressError) as raised:
        split_address(text)
    assert why in str(raised.value)
    assert str(raised.value).endswith("write one such as 10.0.0.7:9876 or [::1]:9876")


def of_the_python_client(text: str) -> None:
    Producer(namesrv_addr=text).start()


def of_the_command_line(text: str) -> None:
    with Cluster(text) as cluster:
        cluster.topics()


@pytest.mark.parametrize("client", [of_the_python_client, of_the_command_line])
@pytest.mark.parametrize("kind", [AddressError, ConfigError, ProtocolError])
def test_both_clients_raise_the_same(client: Callable[[str], None], kind: type[Exception]) -> None:
    with pytest.raises(kind) as raised:
        client("10.0.0.7")
    assert str(raised.value).startswith("10.0.0.7: not an address of the form host:port (no port")


def test_servers_that_ask_others_say_the_same() -> None:
    with pytest.raises(CallError, match=r"host: not an address .* \(no port is given\)"):
        parse_address("host")
    with pytest.raises(CallError, match="h:0: nobody listens on port 0"):
        parse_address("h:0")
