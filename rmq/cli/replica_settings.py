"""Replica settings: the settings of one more replica of a broker, taken from its master.

    settings, notes = checked_settings(replicas, found, "10.0.0.5:9876", 10911)

    brokerName=broker-a
    enableControllerMode=true
    controllerAddr=10.0.0.1:9878;10.0.0.2:9878
    ..

Settings that all replicas must have in common are the master's. Those that are this machine's own,
such as its directories, are left to the operator. UnreachableError: the master, or its port for
slaves, cannot be reached from here.
"""

from __future__ import annotations

import ipaddress
import socket

from rmq.base.server_address import split_address
from rmq.cli.replica_of import TAKEN
from rmq.client.blocking.replicas import Replicas, ReplicaSet
from rmq.errors import RmqError, UnreachableError

# Taken as well as TAKEN, because a replica that becomes master must promise the same.
ALSO = ("flushDiskType", "allAckInSyncStateSet", "minInSyncReplicas", "controllerAddr",
        "rmqReplicaAddresses")  # fmt: skip
CONNECT_S = 3.0
# The values that a broker tells of settings that were not set.
OFF = {"allAckInSyncStateSet": "false", "minInSyncReplicas": "1", "rmqReplicaTls": "disabled"}


def checked_settings(
    replicas: Replicas, found: ReplicaSet, namesrv: str, port: int
) -> tuple[dict[str, str], list[str]]:
    """Returns (the settings, notes for the operator)."""
    master = found.master
    if master is None:
        raise RmqError(
            f"{found.name} has no master now, so its settings are not known: "
            "`rmq replica status` shows why"
        )
    theirs = replicas.settings(master.address)
    taken = {key: theirs[key] for key in (*TAKEN, *ALSO) if theirs.get(key)}
    taken = {key: text for key, text in taken.items() if OFF.get(key) != text}
    taken |= {"enableControllerMode": "true", "listenPort": str(port)}
    taken.setdefault("namesrvAddr", namesrv)
    taken["controllerAddr"] = ";".join(replicas.controllers) or taken.get("controllerAddr", "")
    notes = []
    own = _reach_slave_port(master.address, theirs)
    allowed = theirs.get("rmqReplicaAddresses", "")
    has_accounts = "true" in (theirs.get("authenticationEnabled"), theirs.get("aclEnable"))
    if not _is_let_in(own, allowed, has_accounts):
        notes.append(
            f"master {master.address} does not let {own} copy its log: set this there and on every "
            f"replica: rmqReplicaAddresses={allowed + ';' if allowed else ''}{own}"
        )
    for state in replicas.states():
        if state.leads is None:
            notes.append(f"controller {state.address} does not answer from here")
        if _is_loopback(state.address) and not _is_loopback(own):
            notes.append(f"controller {state.address} can only be reached on its own machine")
    return taken, notes


def settings_text(settings: dict[str, str]) -> str:
    return "".join(f"{key}={text}\n" for key, text in sorted(settings.items()))


def _reach_slave_port(master: str, theirs: dict[str, str]) -> str:
    """Connects to the master's port for slaves; returns this machine's address there."""
    host, port = split_address(master)
    ha_port = int(theirs.get("haListenPort") or 0) or port + 1
    try:
        with socket.create_connection((host, ha_port), CONNECT_S) as connection:
            return str(connection.getsockname()[0])
    except OSError as error:
        raise UnreachableError(
            f"{host}:{ha_port}, where the master serves its replicas (haListenPort), cannot be "
            f"reached from here ({error.strerror or error})"
        ) from None


def _is_let_in(own: str, allowed: str, has_accounts: bool) -> bool:
    """Decides as the master does: addresses that are listed are let in, and without accounts the
    master's own machine."""
    address = ipaddress.ip_address(own)
    if address.is_loopback and not has_accounts:
        return True
    for text in allowed.split(";"):
        try:
            if text.strip() and address in ipaddress.ip_network(text.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]") or address
    return host == "localhost" or host.startswith("127.") or host == "::1"
