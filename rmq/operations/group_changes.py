"""Group changes: what a consumer group is at each broker; made, changed, made like another one.

    for broker, members in states(cluster, "billing"): ..       None: it is not there
    put(cluster, broker, "billing", {**members, "retryMaxTimes": 3})
    make_like(cluster, "billing", "billing-2")

Members are those of RocketMQ's SubscriptionGroupConfig, by their names there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import BrokerEntry, ClusterView

NOT_REPEATED = ("attributes", "groupName")  # a request has changes of attributes, and its own name


def states(
    cluster: ClusterView, group: str, cluster_name: str | None = None
) -> Iterator[tuple[BrokerEntry, dict[str, Any] | None]]:
    """Of every master (of one cluster), what the group is there; None: it is not."""
    for broker in cluster.masters(cluster_name):
        yield broker, admin.group_configs(cluster, broker).get(group)


def settings_of(members: Mapping[str, Any]) -> dict[str, Any]:
    """What a request repeats for them to stay."""
    return {name: value for name, value in members.items()
            if name not in NOT_REPEATED and value is not None}  # fmt: skip


def put(
    cluster: ClusterView, broker: BrokerEntry, group: str, members: Mapping[str, Any]
) -> None:  # fmt: skip
    """The group is this at the broker from now on, whether it was there or not."""
    admin.create_group(cluster, group, settings_of(members), [broker])


def make_like(cluster: ClusterView, source: str, group: str) -> None:
    """Where it is not there yet; RemoteError: there is no such source."""
    known = [(broker, admin.group_configs(cluster, broker)) for broker in cluster.masters()]
    sources = [found[source] for _, found in known if source in found]
    if not sources:
        admin.require_groups(cluster, source)
    for broker, found in known:
        if group not in found:
            like = found.get(source, sources[-1])
            attributes = {f"+{name}": text for name, text in (like.get("attributes") or {}).items()}
            settings = {**settings_of(like), "attributes": attributes}
            admin.create_group(cluster, group, settings, [broker])
