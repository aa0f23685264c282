"""Replacement: how a broker comes back whose machine is gone. Advice; no I/O, and no mechanism.

What a dead broker held is in its replicas. Either the controller has elected one by itself, or an
operator makes a slave the master; and a new replica is added by `rmq replica add`, or by
`rmq broker --replica-of`. So every step here is for the operator who reads the plan.
"""

from __future__ import annotations

from rmq.scaling.cluster_state import MASTER, BrokerState, ClusterState
from rmq.scaling.step import Plan, Step


def replace(state: ClusterState, name: str) -> Plan:
    plan = Plan("replace", (name,))
    broker = state.brokers.get(name)
    alive = [
        (broker_id, address) for broker_id, address in sorted(broker.addresses.items())
        if address in broker.permissions
    ] if broker is not None else []  # fmt: skip
    if broker is None or not alive:
        _from_nothing(plan, name, is_registered=broker is not None)
    elif broker.controllers:
        _controlled(plan, broker)
    elif broker.answers:
        _living(plan, broker)
    else:
        _by_a_slave(plan, broker, *alive[0])
    return plan


def command_of_master(name: str) -> str:
    """The command that starts a broker on a slave's store as the master.

    A start without --replica-of does not read rmqReplicaOf.json (rmq/cli/replica_of.py).
    """
    return (
        f"rmq broker --store DIR --bind ADDRESS -n NAMESRV --set brokerName={name} "
        "--set brokerRole=SYNC_MASTER --set rmqReplicaAddresses=HOST, with -c security.conf or "
        "--insecure, and with the settings of config/rmqReplicaOf.json in the store"
    )


def _hand(plan: Plan, name: str, what: str, before: str | None, after: str) -> None:
    plan.steps.append(Step(name, what, before, after))


def _controlled(plan: Plan, broker: BrokerState) -> None:
    name = broker.name
    state = "elected" if broker.answers else "none; the controller elects one that is in sync"
    plan.notes.append(f"{name} has a controller; its master: {broker.master or state}")
    _hand(plan, name, "dead replicas", "known", f"forgotten: rmq replica remove {name} ID")
    settings = f"rmq replica add {name} --write FILE --store DIR"
    _hand(plan, name, "a new replica", None, f"on its machine: {settings}; rmq broker -c FILE")
    plan.notes.append(f"`rmq replica status {name}` shows their ids, and who is in sync")


def _living(plan: Plan, broker: BrokerState) -> None:
    plan.notes.append(f"the master of {broker.name} answers at {broker.master}")
    _hand(plan, broker.name, "a new replica", None,
          f"on its machine: rmq broker --replica-of {broker.master} --store DIR")  # fmt: skip


def _by_a_slave(plan: Plan, broker: BrokerState, broker_id: int, address: str) -> None:
    name = broker.name
    gone = broker.addresses.get(MASTER, "its master")
    _hand(plan, name, f"slave {broker_id} at {address}", "slave",
          f"master: stop it, then {command_of_master(name)}")  # fmt: skip
    _hand(plan, name, "a new replica", None,
          f"on its machine: rmq broker --replica-of {address} --store DIR")  # fmt: skip
    plan.notes.append(
        f"{gone} must not come back as a master: delete its store first. Without a controller "
        "no other master is elected"
    )


def _from_nothing(plan: Plan, name: str, *, is_registered: bool) -> None:
    plan.notes.append(
        f"no replica of {name} answers: its messages are only in its store, or in a backup"
    )
    _hand(plan, name, "its store", "on its disk", "started again: rmq broker --store DIR")
    restore = "rmq store restore --from BACKUP --store DIR"
    _hand(plan, name, "or a backup", "a copy", f"restored: {restore}; rmq broker --store DIR")
    _hand(plan, name, "or nothing", None, "another broker: rmq cluster apply add NAME")
    if is_registered:
        plan.notes.append(f"to take it off the routes: `rmq cluster apply remove {name} --force`")
