"""Server settings: those of running brokers and name servers, which are asked for them.

    found = settings_of(cluster)                    {"broker-a": {"listenPort": "10911", ..}}
    name_server_settings(cluster, "10.0.0.1:9876")  of one name server
    change(cluster, "broker-a", {"fileReservedTime": "48"})
    differing(found)                                keys in which servers differ

A setting that may not be changed while the server runs is refused by the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rmq import java_properties
from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.partial import Missing, of_brokers
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import ConfigError, RemoteError

# Settings that belong to one broker: its names, addresses, ports and paths.
OWN = re.compile(
    "brokerName|brokerId|brokerIP1|brokerIP2|listenPort|haListenPort|fastListenPort|.*[Pp]ath.*"
    "|metricsPromExporterPort|haMasterAddress|controllerAddr|rmqShard.*|bindAddress"
)
Settings = Mapping[str, str]


def settings_of(
    cluster: Cluster, broker: str | None = None, *, name_servers: bool = False,
    missing: Missing | None = None,
) -> dict[str, Settings]:  # fmt: skip
    """Server -> its settings; missing: see rmq/client/blocking/partial.py."""
    code = RequestCode.GET_NAMESRV_CONFIG if name_servers else RequestCode.GET_BROKER_CONFIG
    servers = list(cluster.name_servers)
    if not name_servers:
        servers = [each.name for each in cluster.masters() if broker in (None, each.name)]
        if not servers:
            which = "broker" if broker is None else f"broker {broker}"
            raise RemoteError(ResponseCode.BROKER_NOT_EXIST, f"no {which} is registered")
    places = {server: _address(cluster, server, name_servers) for server in servers}

    def settings(server: str) -> tuple[str, Settings]:
        return server, _settings_at(cluster, places[server], code)

    return dict(of_brokers(cluster, places.items(), settings, missing))


def name_server_settings(cluster: Cluster, address: str) -> Settings:
    """The settings of this one name server."""
    return _settings_at(cluster, address, RequestCode.GET_NAMESRV_CONFIG)


def _settings_at(cluster: Cluster, address: str, code: RequestCode) -> Settings:
    return _parsed(cluster.call(address, code).body.decode("utf-8", "replace"))


def _parsed(text: str) -> Settings:
    """The settings in a body. rmq escapes values as Java's properties do; RocketMQ does not escape
    them, so a backslash in one may not be readable as an escape."""
    try:
        return java_properties.parse(text)
    except ConfigError:
        pairs = (line.partition("=") for line in text.splitlines())
        return {name.strip(): value for name, equals, value in pairs if equals}


def _address(cluster: Cluster, server: str, is_name_server: bool) -> str:
    return server if is_name_server else cluster.address_of(server)


def change(
    cluster: Cluster, server: str, changes: Mapping[str, str], *, name_servers: bool = False
) -> str:
    """Makes all changes or none, and returns the server's remark. RemoteError names the server."""
    body = java_properties.format(changes.items()).encode()
    code = RequestCode.UPDATE_NAMESRV_CONFIG if name_servers else RequestCode.UPDATE_BROKER_CONFIG
    try:
        reply = cluster.call(_address(cluster, server, name_servers), code, body=body)
    except RemoteError as error:
        raise RemoteError(error.code, f"{server}: {error.remark}") from None
    return reply.remark or ""


def differing(found: Mapping[str, Settings], *, with_own: bool = False) -> Iterator[str]:
    """Settings in which servers differ; with_own: also those that belong to one broker (OWN)."""
    for key in sorted({key for settings in found.values() for key in settings}):
        values = {settings.get(key) for settings in found.values()}
        if len(values) > 1 and (with_own or not OWN.fullmatch(key)):
            yield key
