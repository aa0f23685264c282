"""Plan: what must change so that a cluster becomes as it is wanted. State in, steps out; no I/O.

    add      gives a broker the topics and groups that the other brokers have
    drain    no more sends to a broker, then wait until its messages are consumed
    undrain  sends to the broker again
    remove   nothing is read from the broker any more; it may be stopped

What is as wanted already makes no step. So if a plan was interrupted, a new one has what is left.

RocketMQ has two ways to keep sends from a broker:

    205 wipeWritePerm, sent to each name server, changes what that one process has in memory. That
        is forgotten when the name server or the broker is restarted, when their connection breaks,
        and for each topic that is made or changed at the broker. A name server that was down, or is
        started later, never knows it. And producers of a topic of fixed order go by
        ORDER_TOPIC_CONFIG and send all the same.
    25  brokerPermission=4 is a setting of the broker. It says so in each registration, to all name
        servers, for new topics too. It refuses messages that are sent back for a retry (36: clients
        then send them to another broker) and sends to ordered topics. The setting holds until the
        broker's process ends; Apache's broker also writes it into its property file.

So plans use 25, at each replica of the broker: then one that becomes master is drained, too. After
a restart has forgotten it, the same command sets it again. Until then nothing is lost: the broker
takes sends. Before that step, topics of fixed order get 0 queues at the broker in
ORDER_TOPIC_CONFIG, because their sends would be refused. The row stays, so that an undrain knows
that the topic had queues there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rmq.codes import PERM_READ, PERM_WRITE
from rmq.errors import ConfigError, RmqError
from rmq.scaling.cluster_state import READ_WRITE, BrokerState, ClusterState, perm_text
from rmq.scaling.spread import is_spread, spread
from rmq.scaling.step import (
    AwaitConsumers,
    Plan,
    PutOrder,
    SetPermission,
    Step,
    Unregister,
)
from rmq.scaling.unconsumed import Unconsumed

NO_QUEUES = "0"  # in a row of ORDER_TOPIC_CONFIG: the broker is drained
UNREADABLE = 0  # brokerPermission of a broker that is removed
UNCONSUMED = "unconsumed"  # the step that waits for consumers
SHOWN_MAX = 5  # topics named in a refusal


def add(state: ClusterState, names: Sequence[str], topics: Sequence[str] | None = None) -> Plan:
    """`topics` None: all topics of users."""
    plan = Plan("add", tuple(names))
    orders = dict(state.orders)
    for name in names:
        broker = _answering(state, name)
        sources = [
            each for each in state.brokers.values()
            if each.cluster == broker.cluster and each.name not in names and each.answers
        ]  # fmt: skip
        if not sources:
            raise ConfigError(
                f"no other broker of cluster {broker.cluster} answers, so {name} cannot get its "
                "topics and groups. `rmq cluster list` shows all brokers"
            )
        steps, notes = spread(state, broker, sources, topics)
        plan.steps.extend(steps)
        plan.notes.extend(notes)
        queues = {topic: settings.write_queues
                  for each in sources for topic, settings in each.topics.items()
                  if topics is None or topic in topics}  # fmt: skip
        for topic in sorted(orders.keys() & queues.keys()):
            _order_step(plan, orders, name, topic, with_broker(orders[topic], name, queues[topic]))
        if not broker.takes_sends:
            plan.notes.append(
                f"{name} takes no sends (brokerPermission {broker.permission}): "
                f"`rmq cluster apply undrain {name}`"
            )
    return plan


def drain(
    state: ClusterState, names: Sequence[str], unconsumed: Mapping[str, Unconsumed],
    force: bool = False,
) -> Plan:  # fmt: skip
    """`unconsumed`: what each broker holds. `force`: also if no other broker takes the sends."""
    plan = Plan("drain", tuple(names))
    orders = dict(state.orders)
    lonely = _lonely_topics(state, names)
    if lonely and not force:
        shown = ", ".join(lonely[:SHOWN_MAX]) + (", .." if len(lonely) > SHOWN_MAX else "")
        raise RmqError(
            f"no other broker takes sends to {shown}. Give another broker "
            f"{'this topic' if len(lonely) == 1 else 'these topics'} first (`rmq cluster apply "
            "add BROKER --topics ..`), or use --force: sends fail then"
        )
    for name in names:
        broker = _answering(state, name)
        for topic in sorted(orders):
            _order_step(plan, orders, name, topic, with_queues(orders[topic], name, 0))
        plan.steps.extend(_permission_steps(broker, PERM_READ))
        left = unconsumed[name]
        before = "nothing" if not left.waited_for else f"{left.waited_for}: {left.text()}"
        plan.steps.append(Step(name, UNCONSUMED, before, "nothing", AwaitConsumers()))
        plan.notes.extend(_unheard(broker))
        plan.notes.extend(_not_waited_for(broker, left))
    if lonely:
        plan.notes.append(f"no broker is left that takes sends to {', '.join(lonely)}")
    if any(isinstance(each.action, SetPermission) for each in plan.steps):
        plan.notes.append(
            "a broker of rmq takes sends again after a restart: repeat this command then, or "
            "start it with --set brokerPermission=4"
        )
    return plan


def undrain(state: ClusterState, names: Sequence[str]) -> Plan:
    plan = Plan("undrain", tuple(names))
    orders = dict(state.orders)
    for name in names:
        broker = _answering(state, name)
        plan.steps.extend(_permission_steps(broker, READ_WRITE))
        for topic in sorted(orders.keys() & broker.topics.keys()):
            if dict(order_rows(orders[topic])).get(name) == NO_QUEUES:
                conf = with_queues(orders[topic], name, broker.topics[topic].write_queues)
                _order_step(plan, orders, name, topic, conf)
        plan.notes.extend(_unheard(broker))
    return plan


def remove(
    state: ClusterState, names: Sequence[str], unconsumed: Mapping[str, Unconsumed],
    force: bool = False,
) -> Plan:  # fmt: skip
    """`unconsumed`: what each broker holds, for those that answer."""
    plan = Plan("remove", tuple(names))
    orders = dict(state.orders)
    for name in names:
        for topic in sorted(orders):
            _order_step(plan, orders, name, topic, without_broker(orders[topic], name))
        broker = state.brokers.get(name)
        if broker is None:
            plan.notes.append(f"{name} is registered at no name server: there is nothing to stop")
        elif broker.answers:
            _remove_answering(plan, broker, unconsumed[name], force)
        else:
            _remove_silent(plan, broker, force)
    return plan


def _remove_answering(plan: Plan, broker: BrokerState, left: Unconsumed, force: bool) -> None:
    name = broker.name
    lost = _lost(left)
    writable = [at for at, perm in broker.permissions.items() if perm & PERM_WRITE]
    if not force and (writable or lost):
        why = f"it takes sends at {', '.join(writable)}" if writable else "; ".join(lost)
        if lost and not writable and not left.waited_for:
            way = "Consume them, or use --force: they are lost then"
        else:
            way = f"Drain it first (`rmq cluster apply drain {name}`), or use --force"
        raise RmqError(f"{name} is not drained: {why}. {way}")
    plan.notes.extend(f"{name}: lost when it is removed: {each}" for each in lost)
    if writable:
        plan.notes.append(f"{name}: lost when it is removed: messages sent to it from now on")
    plan.steps.extend(_permission_steps(broker, UNREADABLE))
    stops = ", ".join(broker.addresses.values())
    plan.steps.append(Step(name, f"processes at {stops}", "running", "stopped, by you (SIGTERM)"))
    if broker.controllers:
        plan.notes.append(
            f"{name} has a controller, which must forget its replicas once they are stopped: "
            f"`rmq replica remove {name} ID` for each of them"
        )


def _remove_silent(plan: Plan, broker: BrokerState, force: bool) -> None:
    name = broker.name
    if not force:
        raise RmqError(
            f"the master of {name} does not answer, so it is not known whether it is drained. "
            f"`rmq cluster plan replace {name}` shows how to bring it back; with --force it is "
            "removed, and messages that only its store has are lost"
        )
    for broker_id, address in sorted(broker.addresses.items()):
        action = Unregister(name, broker.cluster, broker_id, address)
        plan.steps.append(Step(name, f"route to {address}", "registered", None, action))
    plan.notes.append(f"{name}: lost when it is removed: messages that only its store has")


# ---- what several plans use


def _answering(state: ClusterState, name: str) -> BrokerState:
    broker = state.brokers.get(name)
    if broker is None:
        known = ", ".join(sorted(state.brokers)) or "none"
        raise ConfigError(
            f"no broker {name} is registered; known brokers: {known}. Start a new one first: "
            "`rmq broker -n NAMESRV --set brokerName=..`"
        )
    if not broker.answers:
        where = (
            f"its master {broker.master} does not answer" if broker.master else "it has no master"
        )
        raise RmqError(f"{name}: {where}. `rmq cluster plan replace {name}` shows what to do")
    return broker


def _permission_steps(broker: BrokerState, wanted: int) -> Iterator[Step]:
    for _, address in sorted(broker.addresses.items()):
        present = broker.permissions.get(address)
        if present is None or present == wanted:
            continue
        yield Step(
            broker.name, f"brokerPermission at {address}",
            f"{present} ({perm_text(present)})", f"{wanted} ({perm_text(wanted)})",
            SetPermission(address, wanted),
        )  # fmt: skip


def _unheard(broker: BrokerState) -> Iterator[str]:
    for _, address in sorted(broker.addresses.items()):
        if address not in broker.permissions:
            yield (
                f"{broker.name} at {address} does not answer, so its brokerPermission stays as it "
                "is; repeat this command when it is back"
            )


def _lonely_topics(state: ClusterState, names: Sequence[str]) -> list[str]:
    """Topics to which producers could not send any more."""
    going = [state.brokers[name] for name in names if name in state.brokers]
    staying = [each for name, each in state.brokers.items() if name not in names]
    found = set()
    for broker in going:
        for topic, settings in broker.topics.items():
            is_sent = broker.takes_sends and settings.perm & PERM_WRITE and settings.write_queues
            if not is_sent or not is_spread(state, topic):
                continue
            if not any(_takes(state, each, topic) for each in staying):
                found.add(topic)
    return sorted(found)


def _takes(state: ClusterState, broker: BrokerState, topic: str) -> bool:
    settings = broker.topics.get(topic)
    if settings is None or not broker.takes_sends or not settings.perm & PERM_WRITE:
        return False
    conf = state.orders.get(topic)
    ordered = dict(order_rows(conf)).get(broker.name, NO_QUEUES) if conf else ""
    return settings.write_queues > 0 and ordered != NO_QUEUES


def _not_waited_for(broker: BrokerState, left: Unconsumed) -> Iterator[str]:
    name = broker.name
    if left.unread:
        yield f"{name}: not waited for, because no group reads them: {left.unread_text()}"
    if left.broadcast:
        yield (
            f"{name}: not waited for, because broadcasting groups keep their own offsets: "
            f"{', '.join(sorted(left.broadcast))}"
        )
    unknown = [*left.unknown, *(["pops not acknowledged"] if broker.pops_in_rocksdb else [])]
    if unknown:
        yield f"{name}: not waited for, because it does not report them: {', '.join(unknown)}"


def _lost(left: Unconsumed) -> list[str]:
    lost = []
    if left.waited_for:
        lost.append(f"unconsumed {left.waited_for}: {left.text()}")
    if left.unread:
        lost.append(f"no group reads {left.unread_text()}")
    return lost


# ---- topics of fixed order


def order_rows(conf: str) -> list[tuple[str, str]]:
    """[("broker-a", "4"), ..]; rows without a number are left out, as clients do."""
    rows = (part.rpartition(":") for part in conf.split(";") if part.strip())
    return [(name, queues) for name, _, queues in rows if name]


def with_broker(conf: str, name: str, queues: int) -> str:
    rows = order_rows(conf)
    if name in dict(rows) or not rows or queues <= 0:
        return conf
    return ";".join(f"{broker}:{count}" for broker, count in [*rows, (name, str(queues))])


def with_queues(conf: str, name: str, queues: int) -> str:
    """The same text with this number of queues at the broker, if that has a row."""
    rows = order_rows(conf)
    if name not in dict(rows):
        return conf
    return ";".join(f"{broker}:{queues if broker == name else count}" for broker, count in rows)


def without_broker(conf: str, name: str) -> str:
    rows = order_rows(conf)
    if name not in dict(rows):
        return conf
    return ";".join(f"{broker}:{count}" for broker, count in rows if broker != name)


def _order_step(plan: Plan, orders: dict[str, str], name: str, topic: str, after: str) -> None:
    before, orders[topic] = orders[topic], after
    if before != after:
        action = PutOrder(topic, after)
        plan.steps.append(Step(name, f"order of {topic}", before, after or None, action))
