"""Plans of growing and shrinking: a cluster's state goes in, steps come out.

Goal: each rule about what a broker gets, and what keeps it from being drained or removed. And a
plan that was carried out, wholly or in part, leaves a plan of exactly the rest. Method: states made
by hand, and random ones whose steps are applied to the state itself. Not shown here: that brokers
do what the steps say (tests/process/test_cluster_plan.py).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from support.volume import volume

from rmq.errors import ConfigError, RmqError
from rmq.scaling.cluster_state import BrokerState, ClusterState, TopicSettings
from rmq.scaling.plan import add, drain, remove, undrain, with_broker, with_queues, without_broker
from rmq.scaling.replacement import replace
from rmq.scaling.step import (
    AwaitConsumers,
    ForbidReading,
    Plan,
    PutGroup,
    PutOrder,
    PutRequestMode,
    PutTopic,
    SetPermission,
    Step,
    Unregister,
)
from rmq.scaling.unconsumed import Unconsumed

FOUR = TopicSettings(4, 4)
EIGHT = TopicSettings(8, 8)
ORDERED = TopicSettings(3, 2, order=True, attributes=(("message.type", "FIFO"),))
NOTHING = Unconsumed()


def group(**members: Any) -> dict[str, Any]:
    return {"retryMaxTimes": 16, "consumeEnable": True, "attributes": {}, **members}


def broker(name: str, permission: int | None = 6, **more: Any) -> BrokerState:
    address = f"{name}:10911"
    permissions = {} if permission is None else {address: permission}
    made = BrokerState(name, "c", {0: address}, permissions)
    return changed(made, **more)


def cluster(*brokers: BrokerState, **orders: str) -> ClusterState:
    return ClusterState({each.name: each for each in brokers}, orders, frozenset({"c", "TBW102"}))


def whats(plan: Plan) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.broker, each.what, each.before, each.after) for each in plan.steps]


# ---- add


def test_a_new_broker_gets_what_the_others_have_groups_first() -> None:
    a = broker(
        "a", topics={"orders": EIGHT, "pay": ORDERED},
        groups={"billing": {**group(retryMaxTimes=3), "attributes": {"priority.factor": "100"}}},
        forbidden=frozenset({("billing", "orders")}), modes={("pay", "billing"): ("POP", 2)},
    )  # fmt: skip
    plan = add(cluster(a, broker("b"), pay="a:2"), ["b"])
    assert whats(plan) == [
        ("b", "group billing", None, "as a has it"),
        ("b", "group billing on orders", "may read", "may not"),
        ("b", "topic orders", None, "8 queues rw"),
        ("b", "topic pay", None, "3/2 queues rw, order, message.type=FIFO"),
        ("b", "mode of billing on pay", None, "POP, share 2"),
        ("b", "order of pay", "a:2", "a:2;b:2"),
    ]
    made = plan.steps[0].action
    assert isinstance(made, PutGroup)
    assert (made.address, made.members["retryMaxTimes"]) == ("b:10911", 3)
    assert made.members["attributes"] == {"+priority.factor": "100"}
    ordered = plan.steps[3].action
    assert isinstance(ordered, PutTopic) and ordered.changes == ("+message.type=FIFO",)
    assert any("pay" in note and "keys" in note for note in plan.notes)


def test_what_belongs_to_brokers_and_groups_is_not_spread() -> None:
    own = ("TBW102", "c", "rmq_sys_REVIVE_LOG_c", "%RETRY%g", "%DLQ%g", "SCHEDULE_TOPIC_XXXX")
    groups = ("CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER", "CID_ONSAPI_PULL", "FILTERSRV_CONSUMER")
    a = broker("a", topics=dict.fromkeys(own, EIGHT), groups=dict.fromkeys(groups, group()))
    assert add(cluster(a, broker("b")), ["b"]).steps == []


def test_only_the_topics_that_are_named() -> None:
    a = broker("a", topics={"orders": EIGHT, "pay": FOUR})
    state = cluster(a, broker("b"), orders="a:8", pay="a:4")
    assert [what for _, what, _, _ in whats(add(state, ["b"], ["pay"]))] == [
        "topic pay", "order of pay",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="no other broker has a topic cash"):
        add(state, ["b"], ["cash"])


def test_where_the_others_differ_most_are_right_and_it_is_said() -> None:
    rest = [broker(name, topics={"orders": FOUR}, groups={"g": group()}) for name in "bc"]
    a = broker("a", topics={"orders": EIGHT}, groups={"g": group(retryMaxTimes=1)})
    plan = add(cluster(a, *rest, broker("n")), ["n"])
    assert ("n", "topic orders", None, "4 queues rw") in whats(plan)
    assert plan.notes == ["topic orders differs at a; the settings of b are used",
                          "group g differs at a; the settings of b are used"]  # fmt: skip


def test_queues_that_may_hold_messages_stay_readable() -> None:
    b = broker("b", topics={"orders": EIGHT})
    plan = add(cluster(broker("a", topics={"orders": FOUR}), b), ["b"])
    assert whats(plan) == [("b", "topic orders", "8 queues rw", "8/4 queues rw")]
    assert "b has 8 queues of orders; those beyond 4 stay readable" in plan.notes


def test_attributes_are_said_as_changes_and_only_those() -> None:
    a = TopicSettings(4, 4, attributes=(("cleanup.policy", "DELETE"), ("message.type", "FIFO")))
    b = TopicSettings(4, 4, attributes=(("cleanup.policy", "DELETE"), ("reserve.time", "-1")))
    plan = add(cluster(broker("a", topics={"t": a}), broker("b", topics={"t": b})), ["b"])
    (step,) = plan.steps
    assert isinstance(step.action, PutTopic)
    assert step.action.changes == ("+message.type=FIFO", "-reserve.time")


def test_members_of_another_version_are_no_difference() -> None:
    old = {"retryMaxTimes": 3, "consumeEnable": True}
    b = broker("b", groups={"g": group()})
    (step,) = add(cluster(broker("a", groups={"g": old}), b), ["b"]).steps
    assert (step.before, step.after) == ("retryMaxTimes=16", "retryMaxTimes=3")
    assert isinstance(step.action, PutGroup)
    assert step.action.members == {**group(retryMaxTimes=3), "attributes": {}}


def test_static_topics_are_left_as_they_are() -> None:
    a = broker("a", topics={"t": FOUR}, static_topics=frozenset({"t"}))
    plan = add(cluster(a, broker("b")), ["b"])
    assert plan.steps == [] and plan.notes == ["static topics are left as they are: t"]


def test_who_cannot_be_added() -> None:
    a = broker("a", topics={"t": FOUR})
    with pytest.raises(ConfigError, match="no broker x is registered; known brokers: a"):
        add(cluster(a), ["x"])
    with pytest.raises(ConfigError, match="no other broker of cluster c answers"):
        add(cluster(a, broker("b", None)), ["a"])
    with pytest.raises(RmqError, match="its master b:10911 does not answer"):
        add(cluster(a, broker("b", None)), ["b"])
    with pytest.raises(RmqError, match="b: it has no master"):
        add(cluster(a, broker("b", None, addresses={1: "s:1"})), ["b"])
    assert "undrain b" in add(cluster(a, broker("b", 4)), ["b"]).notes[-1]


# ---- drain, undrain


def two(**orders: str) -> ClusterState:
    topics = {"orders": EIGHT}
    return cluster(broker("a", topics=topics), broker("b", topics=topics), **orders)


def test_a_drain_takes_sends_from_each_replica_and_waits() -> None:
    state = two(orders="a:8;b:8")
    a = changed(
        state.brokers["a"], addresses={0: "a:10911", 1: "s:10911", 2: "t:10911"},
        permissions={"a:10911": 6, "s:10911": 6},
    )  # fmt: skip
    left = Unconsumed({("orders", "g"): 5}, {"delayed": 2, "timed": None}, {"%DLQ%g": 1})
    plan = drain(changed(state, brokers={**state.brokers, "a": a}), ["a"], {"a": left})
    assert whats(plan) == [
        ("a", "order of orders", "a:8;b:8", "a:0;b:8"),
        ("a", "brokerPermission at a:10911", "6 (rw)", "4 (r)"),
        ("a", "brokerPermission at s:10911", "6 (rw)", "4 (r)"),
        ("a", "unconsumed", "7: g 5 of orders, delayed 2", "nothing"),
    ]
    assert [type(each.action) for each in plan.steps] == [
        PutOrder, SetPermission, SetPermission, AwaitConsumers,
    ]  # fmt: skip
    assert plan.notes[:3] == [
        "a at t:10911 does not answer, so its brokerPermission stays as it is; repeat this command "
        "when it is back",
        "a: not waited for, because no group reads them: 1 of %DLQ%g",
        "a: not waited for, because it does not report them: timed",
    ]


def test_sends_must_have_somewhere_else_to_go() -> None:
    for state, names in (
        (two(), ["a", "b"]),
        (cluster(broker("a", topics={"orders": EIGHT}), broker("b")), ["a"]),
        (cluster(broker("a", topics={"orders": EIGHT}),
                 broker("b", 4, topics={"orders": EIGHT})), ["a"]),
        (cluster(broker("a", topics={"orders": EIGHT}),
                 broker("b", topics={"orders": TopicSettings(8, 8, 4)})), ["a"]),
        (two(orders="a:8"), ["a"]),
        (two(orders="a:8;b:0"), ["a"]),
    ):  # fmt: skip
        left = dict.fromkeys(names, NOTHING)
        with pytest.raises(RmqError, match="no other broker takes sends to orders"):
            drain(state, names, left)
        forced = drain(state, names, left, force=True)
        assert "no broker is left that takes sends to orders" in forced.notes
    # A topic that takes no sends now loses nothing, nor does a retry topic, which each broker makes
    # by itself.
    drain(cluster(broker("a", 4, topics={"t": FOUR}), broker("b")), ["a"], {"a": NOTHING})
    drain(cluster(broker("a", topics={"%RETRY%g": FOUR}), broker("b")), ["a"], {"a": NOTHING})


def test_an_undrain_gives_back_what_a_drain_took() -> None:
    state = two(orders="a:8;b:8")
    drained = do(state, drain(state, ["a"], {"a": NOTHING}).steps)
    assert (drained.brokers["a"].takes_sends, drained.orders["orders"]) == (False, "a:0;b:8")
    again = do(drained, undrain(drained, ["a"]).steps)
    assert again == state
    assert undrain(again, ["a"]).steps == []
    only_b = two(orders="b:8")  # a was not in the order, and must not be put there
    drained = do(only_b, drain(only_b, ["a"], {"a": NOTHING}).steps)
    assert do(drained, undrain(drained, ["a"]).steps) == only_b


# ---- remove, replace


def test_only_what_is_drained_is_removed() -> None:
    state = two()
    with pytest.raises(RmqError, match=r"not drained: it takes sends at a:10911\. Drain"):
        remove(state, ["a"], {"a": NOTHING})
    drained = do(state, drain(state, ["a"], {"a": NOTHING}).steps)
    some = Unconsumed({("orders", "g"): 5}, unread={"%DLQ%g": 1})
    with pytest.raises(RmqError, match="unconsumed 5: g 5 of orders; no group reads 1 of %DLQ%g"):
        remove(drained, ["a"], {"a": some})
    with pytest.raises(RmqError, match=r"no group reads 1 of %DLQ%g\. Consume them, or use"):
        remove(drained, ["a"], {"a": Unconsumed(unread={"%DLQ%g": 1})})
    plan = remove(drained, ["a"], {"a": NOTHING})
    assert [each.what for each in plan.doable] == ["brokerPermission at a:10911"]
    assert [each.after for each in plan.by_hand] == ["stopped, by you (SIGTERM)"]
    forced = remove(state, ["a"], {"a": some}, force=True)
    assert forced.notes == [
        "a: lost when it is removed: unconsumed 5: g 5 of orders",
        "a: lost when it is removed: no group reads 1 of %DLQ%g",
        "a: lost when it is removed: messages sent to it from now on",
    ]


def test_a_broker_that_is_gone_is_only_forgotten_by_force() -> None:
    dead = broker("a", None, addresses={0: "a:10911", 1: "s:10911"})
    state = cluster(dead, broker("b"), pay="a:2;b:2")
    with pytest.raises(RmqError, match="plan replace a"):
        remove(state, ["a"], {})
    plan = remove(state, ["a"], {}, force=True)
    assert whats(plan) == [
        ("a", "order of pay", "a:2;b:2", "b:2"),
        ("a", "route to a:10911", "registered", None),
        ("a", "route to s:10911", "registered", None),
    ]
    left = do(state, plan.steps)
    assert remove(left, ["a"], {}).steps == []
    assert remove(left, ["a"], {}).notes == [
        "a is registered at no name server: there is nothing to stop"
    ]  # fmt: skip


def test_a_replacement_points_to_the_replicas() -> None:
    def said(*brokers: BrokerState) -> str:
        plan = replace(cluster(*brokers), "a")
        assert plan.doable == [] and plan.steps
        return " ".join(f"{each.what} {each.after}" for each in plan.steps)

    both = {0: "a:10911", 1: "s:10911"}
    assert "rmq broker --replica-of a:10911" in said(broker("a"))
    slave = broker("a", None, addresses=both, permissions={"s:10911": 6})
    assert "slave 1 at s:10911" in said(slave) and "--replica-of s:10911" in said(slave)
    # What a slave on another machine, and its clients, can reach, under the name that they know.
    for option in ("--bind ", "brokerName=a ", "rmqReplicaAddresses=", "rmqReplicaOf.json"):
        assert option in said(slave)
    assert "rmq replica add a" in said(changed(slave, controllers=("c:9878",)))
    assert "rmq store restore" in said(broker("a", None))
    assert "rmq store restore" in said(broker("b"))


# ---- topics of fixed order


def test_rows_of_an_order() -> None:
    assert with_broker("a:4;b:4", "c", 2) == "a:4;b:4;c:2"
    assert with_broker("a:4;b:4", "b", 2) == "a:4;b:4"
    assert with_broker("", "b", 2) == ""
    assert with_broker("a:4", "b", 0) == "a:4"
    assert with_queues("a:4;b:4", "b", 0) == "a:4;b:0"
    assert with_queues("a:4", "b", 0) == "a:4"
    assert without_broker("a:4;b:4", "a") == "b:4"
    assert without_broker("a:4", "a") == ""
    assert without_broker("a:4; ;x", "c") == "a:4; ;x"


# ---- plans that are done


def do(state: ClusterState, steps: list[Step]) -> ClusterState:
    """The state that brokers and name servers make of the steps."""
    brokers, orders = dict(state.brokers), dict(state.orders)
    by_address = {at: name for name, each in brokers.items() for at in each.addresses.values()}
    for step in steps:
        action = step.action
        if isinstance(action, PutOrder):
            orders[action.topic] = action.order_conf
            if not action.order_conf:
                del orders[action.topic]
        elif isinstance(action, Unregister):
            brokers.pop(action.name, None)
        elif action is not None and not isinstance(action, AwaitConsumers):
            name = by_address[action.address]
            brokers[name] = done_at(brokers[name], action)
    return changed(state, brokers=brokers, orders=orders)


def done_at(at: BrokerState, action: object) -> BrokerState:
    if isinstance(action, SetPermission):
        return changed(at, permissions={**at.permissions, action.address: action.permission})
    if isinstance(action, PutTopic):
        present = at.topics.get(action.topic)
        attributes = dict(present.attributes) if present is not None else {}
        for change in action.changes:
            key, _, text = change[1:].partition("=")
            if change[0] == "+":
                attributes[key] = text
            else:
                del attributes[key]
        assert tuple(sorted(attributes.items())) == action.settings.attributes
        return changed(at, topics={**at.topics, action.topic: action.settings})
    if isinstance(action, PutGroup):
        name = action.members["groupName"]
        attributes = dict(at.groups[name]["attributes"]) if name in at.groups else {}
        for key, text in action.members["attributes"].items():
            if key[0] == "+":
                attributes[key[1:]] = text
            else:
                del attributes[key[1:]]
        return changed(at, groups={**at.groups, name: {**action.members, "attributes": attributes}})
    if isinstance(action, ForbidReading):
        return changed(at, forbidden=at.forbidden | {(action.group, action.topic)})
    assert isinstance(action, PutRequestMode)
    mode = (action.mode, action.pop_share_queue_num)
    return changed(at, modes={**at.modes, (action.topic, action.group): mode})


ATTRIBUTES = st.dictionaries(st.sampled_from(["message.type", "reserve.time"]),
                             st.sampled_from(["-1", "FIFO"]))  # fmt: skip
TOPICS = st.dictionaries(
    st.sampled_from(["t", "u", "v"]),
    st.builds(
        TopicSettings, st.integers(0, 4), st.integers(0, 4), st.sampled_from([2, 4, 6]),
        st.booleans(), attributes=ATTRIBUTES.map(lambda each: tuple(sorted(each.items()))),
    ),
)  # fmt: skip


@st.composite
def brokers(draw: st.DrawFn, name: str) -> BrokerState:
    groups = {
        each: {"groupName": each, **group(retryMaxTimes=draw(st.integers(1, 2))),
               "attributes": draw(ATTRIBUTES)}
        for each in draw(st.sets(st.sampled_from(["g", "h"])))
    }  # fmt: skip
    pairs = st.tuples(st.sampled_from(["g", "h"]), st.sampled_from(["t", "u"]))
    modes = st.dictionaries(
        pairs.map(lambda pair: (pair[1], pair[0])),
        st.tuples(st.sampled_from(["POP", "PULL"]), st.integers(0, 1)),
    )
    return broker(
        name, draw(st.sampled_from([4, 6])), topics=draw(TOPICS), groups=groups,
        forbidden=draw(st.frozensets(pairs)), modes=draw(modes),
    )  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> ClusterState:
    made = cluster(*(draw(brokers(name)) for name in "abc"))
    conf = st.sampled_from(["a:1", "a:1;b:2", "b:1;c:3", "b:1;c:0"])
    return changed(made, orders=draw(st.dictionaries(st.sampled_from(["t", "u"]), conf)))


@settings(max_examples=volume(40, 200))
@given(clusters(), st.sampled_from(["add", "drain", "undrain", "remove"]), st.integers(0, 8))
def test_a_plan_done_in_part_is_made_again_and_has_what_is_left(
    state: ClusterState, verb: str, stopped_after: int
) -> None:
    def made(at: ClusterState) -> list[Step]:
        left = {"c": NOTHING}
        plan = {
            "add": lambda: add(at, ["c"]),
            "drain": lambda: drain(at, ["c"], left, force=True),
            "undrain": lambda: undrain(at, ["c"]),
            "remove": lambda: remove(at, ["c"], left, force=True),
        }[verb]()
        return [each for each in plan.doable if not isinstance(each.action, AwaitConsumers)]

    steps = made(state)
    whole = do(state, steps)
    assert made(whole) == []
    partly = do(state, steps[:stopped_after])
    again = do(partly, made(partly))
    assert again == whole
    for name in "ab":  # no other broker may be changed
        assert whole.brokers[name] == state.brokers[name]
