"""A verdict on a name is the same as by going through all entries, and costs the same however many
there are.

Method: ACLs of ten thousand entries, with random names that often begin alike, are asked beside a
loop over all entries. Costs are counted in instructions of Python. What the reactor does with as
many: tests/unit/flow/test_admission.py, and the stage verdict_of_many of bench/stages.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.bytecode import steps
from support.volume import seeds, volume

from rmq.auth.accounts import ENTRIES_MAX
from rmq.auth.authorization import Wanted, refusal
from rmq.auth.policy import Acl, Action, Decision, PolicyType
from rmq.auth.resource import Resource, cluster, group, topic
from rmq.auth.user import User
from rmq.base.networks import NetworkSet, network, unmapped
from rmq.limits import HEARTBEAT_GROUPS_MAX

ALICE = User("alice", "secret")
PUB, SUB = frozenset((Action.PUB,)), frozenset((Action.SUB,))
ACTIONS = ["All", "Pub", "Sub", "Get", "Create"]
SOURCES = [[]] * 6 + [["10.0.0.0/8"], ["10.1.0.0/16", "fd00::/8"], ["::1", "10.0.0.9"]]
FROM = [None, *map(ip_address, ("10.0.0.9", "10.1.2.3", "11.0.0.1", "fd00::7"))]
INNER = ["rmq_sys_wheel_timer", "SCHEDULE_TOPIC_XXXX", "rmq_sys_REVIVE_LOG_c"]


def short_name(source: random.Random) -> str:
    """A name of few letters, so that many names begin alike."""
    if source.random() < 0.02:
        return source.choice(INNER)
    return "".join(source.choices("abc", k=source.randint(1, 9)))


def entries(source: random.Random, count: int, kind: str) -> list[dict[str, Any]]:
    names = ["*", f"{kind}:*", f"{kind}:rmq_sys_*", "Namespace:n", "Cluster:*"]
    while len(names) < count:
        names += {f"{kind}:{short_name(source)}{source.choice(('', '*'))}" for _ in range(count)}
        names = list(dict.fromkeys(names))
    return [
        {"resource": name, "actions": source.sample(ACTIONS, source.choice((1, 2))),
         "sourceIps": source.choice(SOURCES), "decision": source.choice(("Allow", "Deny"))}
        for name in source.sample(names, count)
    ]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """An entry, taken apart once, which is then asked about many names."""

    resource: str
    kind: str
    name: str  # without its star
    starred: bool
    actions: frozenset[str]
    sources: tuple[Any, ...]
    decision: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Line:
        kind, _, name = entry["resource"].partition(":")
        return cls(
            entry["resource"], kind, name.removesuffix("*"), name.endswith("*"),
            frozenset(entry["actions"]), tuple(map(network, entry["sourceIps"])),
            entry["decision"],
        )  # fmt: skip

    def covers(self, wanted: str, kind: str) -> bool:
        if kind == "Topic" and wanted in INNER:
            return self.resource == f"Topic:{wanted}"
        if self.resource == "*":
            return True
        if kind != self.kind:
            return False
        return wanted.startswith(self.name) if self.starred else wanted == self.name


def gone_through(
    policies: list[list[Line]], wanted: Resource, action: Action, source: Any
) -> Decision | None:
    """What RocketMQ decides, entry by entry. The longer resource is closer to the name, and an
    entry for the whole name comes before all with a star."""
    name, kind, either = wanted.name, wanted.type.value, {"All", action.value}
    for policy in policies:
        found = [
            line
            for line in policy
            if line.covers(name, kind)
            and not either.isdisjoint(line.actions)
            and (not line.sources or (source and any(source in each for each in line.sources)))
        ]
        if found:
            nearest = min(
                found,
                key=lambda line: (
                    line.resource.endswith("*"),
                    -len(line.resource),
                    line.decision == "Allow",
                ),
            )
            return Decision(nearest.decision)
    return None


@pytest.mark.parametrize("count", [7, 300, ENTRIES_MAX // 2])
@pytest.mark.parametrize("seed", seeds(volume(2, 20)))
def test_the_entry_that_counts_is_that_of_all(seed: int, count: int) -> None:
    source = random.Random(seed)
    kind, of_kind = source.choice((("Topic", topic), ("Group", group)))
    policies = [
        {"policyType": each.value, "entries": entries(source, count, kind)} for each in PolicyType
    ]
    acl = Acl.of(policies)
    lines = [list(map(Line.of, policy["entries"])) for policy in policies]
    found: dict[Decision | None, int] = dict.fromkeys((None, *Decision), 0)
    for number in range(200):
        make = source.choice((topic, group, cluster)) if number % 4 == 0 else of_kind
        wanted = make(short_name(source))
        action, place = source.choice((Action.PUB, Action.SUB)), source.choice(FROM)
        expected = gone_through(lines, wanted, action, place)
        assert acl.decision(wanted, frozenset((action,)), place) is expected, (wanted, place)
        found[expected] += 1
    if count > 7:
        assert min(found[Decision.ALLOW], found[Decision.DENY]) > 10, found


def acl_of(many: int) -> Acl:
    """An ACL with the same entries for groups and topics: whole names, beginnings of two lengths,
    and some entries for all names."""
    names = [f"x{number:05}{'*' if number % 2 else ''}" for number in range(many)]
    rest = [
        {"resource": "Topic:*", "actions": ["Get"], "decision": "Deny"},
        {"resource": "Group:c*", "actions": ["Sub"], "decision": "Allow"},
        {"resource": "Group:cons*", "actions": ["Pub"], "decision": "Deny"},
        {"resource": "*", "actions": ["Create"], "decision": "Deny"},
    ]
    entries = [
        {"resource": f"{kind}:{name}", "actions": ["Pub"], "decision": "Allow"}
        for kind in ("Topic", "Group")
        for name in names
    ]
    return Acl.of([{"policyType": kind.value, "entries": [*entries, *rest]} for kind in PolicyType])


def test_a_heartbeat_costs_the_same_however_many_entries_its_user_has() -> None:
    """A heartbeat with the most groups that it may have must cost the same for a user with many
    entries. With a thousand entries it once held up the control thread for 9 s."""
    wanted = [Wanted(group(f"consumer-{number}"), SUB) for number in range(HEARTBEAT_GROUPS_MAX)]
    wanted[-1] = Wanted(topic("x00000"), PUB)
    costs = []
    for many in (2, ENTRIES_MAX // 4 - 4):
        acl = acl_of(many)
        assert refusal(ALICE, acl, wanted[-1:], None) == ""  # from then on the ACL has its index
        costs.append(steps(partial(refusal, ALICE, acl, wanted, None)))
        assert refusal(ALICE, acl, wanted, None) == ""
    assert costs[0] == costs[1] > HEARTBEAT_GROUPS_MAX
    assert costs[0] < 300 * HEARTBEAT_GROUPS_MAX


def test_who_is_refused_costs_the_same_too() -> None:
    few, many = acl_of(2), acl_of(ENTRIES_MAX // 4 - 4)
    for wanted in (topic("x00001-a"), topic("orders"), group("g"), cluster("c"), topic(INNER[0])):
        costs = []
        for acl in (few, many):
            assert acl.decision(wanted, SUB, None) is None
            costs.append(steps(partial(acl.decision, wanted, SUB, None)))
        assert costs[0] == costs[1], wanted


def test_a_place_is_looked_up_among_a_thousand_for_what_one_costs() -> None:
    one, many = (
        Acl.of([{"entries": [{"resource": "*", "actions": ["Sub"], "decision": "Allow",
                              "sourceIps": [f"10.{n % 256}.{n // 256}.8/30" for n in range(count)]
                              }]}])
        for count in (1, 1000)
    )  # fmt: skip
    for place, expected in (
        ("10.0.0.9", Decision.ALLOW), ("10.0.0.12", None), ("11.0.0.1", None),
    ):  # fmt: skip
        costs = []
        for acl in (one, many):
            assert acl.decision(topic("t"), SUB, ip_address(place)) is expected
            costs.append(steps(partial(acl.decision, topic("t"), SUB, ip_address(place))))
        assert costs[0] == costs[1], place


NETWORKS = st.one_of(
    st.tuples(st.integers(0, 255), st.integers(20, 32)).map(lambda n: f"10.0.{n[0]}.0/{n[1]}"),
    st.tuples(st.integers(0, 255), st.integers(0, 128)).map(lambda n: f"fd00::{n[0]:x}/{n[1]}"),
    st.sampled_from(["0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "::/90", "255.255.255.255"]),
)
ADDRESSES = st.one_of(
    st.tuples(st.integers(0, 255), st.integers(0, 255)).map(lambda n: f"10.0.{n[0]}.{n[1]}"),
    st.integers(0, 255).map(lambda n: f"fd00::{n:x}"),
    st.sampled_from(["0.0.0.0", "255.255.255.255", "::", "::ffff:10.0.0.1", "ffff::"]),
)


@settings(max_examples=volume(500, 5000))
@given(st.lists(NETWORKS, max_size=12), ADDRESSES)
@example([], "10.0.0.1")
@example(["::/0", "10.0.0.0/8"], "11.0.0.1")
def test_an_address_is_in_a_set_of_networks_where_it_is_in_one(texts: list[str], text: str) -> None:
    given_ones, address = [network(each) for each in texts], unmapped(ip_address(text))
    found = NetworkSet(given_ones)
    assert (address in found) == any(address in each for each in given_ones)
