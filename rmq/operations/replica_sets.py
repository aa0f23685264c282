"""Replica sets: which replicas copy which master; controllers and brokers are asked for them.

    replicas = Replicas(cluster, controllers_of(replicas, cluster.brokers()))
    for found in replica_sets(replicas, entries): found.name, found.replicas

Controllers are those that are given, or those that the brokers name (controllerAddr).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rmq.client.blocking.cluster import BrokerEntry
from rmq.client.blocking.replicas import Replicas, ReplicaSet
from rmq.errors import ProtocolError, RemoteError, UnreachableError


def controllers_of(replicas: Replicas, entries: Sequence[BrokerEntry]) -> list[str]:
    """The controllers that brokers name. Of each broker name the first that answers is asked."""
    found: dict[str, None] = {}
    for entry in entries:
        for _, address in sorted(entry.addresses.items()):
            try:
                settings = replicas.settings(address)
            except (UnreachableError, RemoteError, ProtocolError):
                continue
            if settings.get("enableControllerMode") == "true":
                named = settings.get("controllerAddr", "").split(";")
                found |= dict.fromkeys(each.strip() for each in named if each.strip())
            break
    return list(found)


def replica_sets(
    replicas: Replicas, entries: Sequence[BrokerEntry], names: Collection[str] = ()
) -> list[ReplicaSet]:
    """Sets of these names; without names all sets that controllers know, and brokers with
    slaves."""
    sets = replicas.sets(list(names)) if replicas.controllers else []
    known = {found.name for found in sets}
    plain = [each for each in entries if each.name not in known and _is_wanted(each, names)]
    return sets + [replicas.plain_set(each) for each in plain]


def _is_wanted(entry: BrokerEntry, names: Collection[str]) -> bool:
    return entry.name in names if names else len(entry.addresses) > 1
