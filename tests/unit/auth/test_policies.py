"""Which policy entry decides: in the order of RocketMQ 5.5.0, which differs from older versions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rmq.auth.authorization import Wanted, address, refusal
from rmq.auth.policy import Acl, Action, PolicyEntry, PolicyType
from rmq.auth.resource import Resource, cluster, group, topic
from rmq.auth.user import User, UserType
from rmq.errors import ProtocolError

ALICE = User("alice", "secret")
PUB, SUB = frozenset((Action.PUB,)), frozenset((Action.SUB,))


def entry(resource: str, decision: str = "Allow", actions: str = "Pub", ips: str = "") -> Any:
    return {
        "resource": resource, "actions": actions.split(), "decision": decision,
        "sourceIps": ips.split(),
    }  # fmt: skip


def acl(*custom: Any, default: Any = ()) -> Acl:
    policies = [{"policyType": "Custom", "entries": list(custom)}] if custom else []
    if default:
        policies.append({"policyType": "Default", "entries": list(default)})
    return Acl.of(policies)


def said(found: Acl, wanted: Resource, actions: Any = PUB, source: str = "10.0.0.1:5") -> str:
    return refusal(ALICE, found, [Wanted(wanted, actions)], address(source))


@pytest.mark.parametrize(
    ("text", "name", "covered"),
    [
        ("*", "orders", True),
        ("Topic:*", "orders", True),
        ("Topic:orders", "orders", True),
        ("topic:orders", "orders", True),
        ("Topic:orders", "orders2", False),
        ("Topic:ord*", "orders", True),
        ("Topic:ord*", "ord", True),
        ("Topic:ord*", "or", False),
        ("Group:*", "orders", False),
        ("Cluster:*", "orders", False),
    ],
)
def test_what_a_resource_covers(text: str, name: str, covered: bool) -> None:
    resource = Resource.of(text)
    assert resource is not None
    assert (said(acl(entry(text)), topic(name)) == "") is covered
    again = Resource.of(str(resource))
    assert again == resource


@pytest.mark.parametrize("text", ["Any:orders", "any:*", "Any:o*"])
def test_what_is_for_any_type_is_for_everything_whatever_name_it_has(text: str) -> None:
    """A resource of type Any must be the same as `*` from the start. It once was a different one in
    memory, and became `*` only when it was written and read, so that another entry could decide
    then."""
    assert Resource.of(text) == Resource.of("*")
    found = acl(entry("*", "Deny"), entry(text))
    assert said(found, topic("t")) == said(Acl.of(found.members()), topic("t")) == ""


@pytest.mark.parametrize("text", ["", "orders", "Topic", "Topic:", "Topic: ", "Queue:q", ":q"])
def test_what_is_no_resource(text: str) -> None:
    assert Resource.of(text) is None


def test_a_retry_topic_is_its_group() -> None:
    assert topic("%RETRY%g") == group("g") == group("%RETRY%g")
    assert topic("%DLQ%g") == Resource.of("Topic:%DLQ%g")
    assert topic("%RETRY%g_orders") != group("g"), "what another group of that name would have"


def test_who_has_no_policy_may_do_nothing() -> None:
    text = "User:alice has no permission to access Topic:t from 10.0.0.1, no matched policies."
    assert said(Acl(), topic("t")) == text
    assert said(acl(entry("Topic:other")), topic("t")) == text
    assert said(acl(entry("Topic:t", actions="Sub")), topic("t")) == text
    assert refusal(User("root", "x", UserType.SUPER), Acl(), [Wanted(topic("t"), PUB)], None) == ""


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([entry("*", "Deny"), entry("Topic:*")], True),
        ([entry("Topic:*", "Deny"), entry("*")], False),
        ([entry("Topic:*", "Deny"), entry("Topic:orders*")], True),
        ([entry("Topic:o*", "Deny"), entry("Topic:orders*")], True),
        ([entry("Topic:orders*", "Deny"), entry("Topic:o*")], False),
        ([entry("Topic:orders*", "Deny"), entry("Topic:orders")], True),
        ([entry("Topic:orders", "Deny"), entry("Topic:orders*")], False),
        ([entry("Topic:orders", "Deny", "All"), entry("Topic:orders*", "Allow", "Pub")], False),
        ([entry("Topic:orders", "Deny", "Sub"), entry("Topic:o*", "Allow", "Pub")], True),
    ],
)
def test_the_entry_nearest_to_the_resource_counts(entries: list[Any], allowed: bool) -> None:
    for order in (entries, entries[::-1]):
        text = said(acl(*order), topic("orders"))
        assert text == "" if allowed else text.endswith("the decision is deny.")


def test_among_equals_a_deny_counts() -> None:
    kinds = {
        PolicyType.CUSTOM: (
            PolicyEntry.of(entry("Topic:t", "Allow")),
            PolicyEntry.of(entry("Topic:t", "Deny")),
        )
    }
    assert said(Acl(kinds), topic("t")).endswith("the decision is deny.")


def test_default_policies_count_where_no_custom_one_matches() -> None:
    found = acl(entry("Topic:t", "Deny", "Sub"), default=[entry("*", "Allow", "All")])
    assert said(found, topic("t"), PUB) == ""
    assert said(found, topic("t"), SUB).endswith("the decision is deny.")
    assert said(found, topic("other"), SUB) == ""


def test_each_resource_that_a_request_touches_has_to_be_allowed() -> None:
    found = acl(entry("Topic:t", actions="Sub"), entry("Group:g", actions="Sub"))
    both = [Wanted(topic("t"), SUB), Wanted(group("g"), SUB)]
    assert refusal(ALICE, found, both, address("10.0.0.1")) == ""
    assert "Group:h" in refusal(ALICE, found, [*both, Wanted(group("h"), SUB)], None)
    assert refusal(ALICE, Acl(), [], None) == ""


@pytest.mark.parametrize(
    ("ips", "source", "allowed"),
    [
        ("10.0.0.1", "10.0.0.1:99", True),
        ("10.0.0.1", "10.0.0.2:99", False),
        ("10.0.0.0/8 192.168.0.1", "10.9.9.9:1", True),
        ("10.0.0.0/8 192.168.0.1", "192.168.0.1", True),
        ("10.0.0.0/8", "[::ffff:10.1.1.1]:7", True),
        ("fd00::/8", "[fd00::1]:7", True),
        ("fd00::1", "[fd00:0:0::1]:7", True),
        ("fd00::/8", "10.0.0.1:1", False),
        ("0.0.0.0/0", "10.0.0.1:1", True),
        ("10.0.0.0/8", "no address", False),
    ],
)
def test_where_a_request_may_come_from(ips: str, source: str, allowed: bool) -> None:
    assert (said(acl(entry("Topic:t", ips=ips)), topic("t"), source=source) == "") is allowed


def test_an_entry_for_elsewhere_says_nothing_here() -> None:
    found = acl(entry("Topic:t", "Deny", ips="10.0.0.0/8"), entry("Topic:*"))
    assert said(found, topic("t"), source="10.1.1.1:1").endswith("the decision is deny.")
    assert said(found, topic("t"), source="11.1.1.1:1") == ""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (entry(""), "The resource is null."),
        (entry("Queue:q"), "The resource is null."),
        (entry("Topic:t", actions=""), "The actions is empty."),
        (entry("Topic:t", actions="Any"), "The actions can not be Any."),
        (entry("Topic:t", actions="Fly"), "The actions is empty."),
        (entry("Topic:t", ips="10.0.0"), "The source ip is invalid."),
        (entry("Topic:t", ips="10.0.0.0/40"), "The source ip is invalid."),
        (entry("Topic:t", decision="Perhaps"), "The decision is null or illegal."),
        ("Topic:t", "The resource is null."),
    ],
)
def test_what_is_no_entry(given: Any, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        PolicyEntry.of(given)
    assert str(caught.value) == text


@pytest.mark.parametrize("given", [None, {}, [], [1], [{"policyType": "Custom"}],
                                   [{"policyType": "Custom", "entries": []}]])  # fmt: skip
def test_what_are_no_policies(given: Any) -> None:
    with pytest.raises(ProtocolError):
        Acl.of(given)


def cost_s(policies: list[Any]) -> float:
    """The processor time of this thread."""
    before = time.thread_time()
    Acl.of(policies)
    return time.thread_time() - before


def test_many_policies_cost_no_more_than_one_of_as_many_entries() -> None:
    """Many policies must cost no more than one with as many entries. A request may bring ten
    thousand; when each one was compared with all before it, a broker's control stood still for 12
    s."""
    entries = [entry(f"Topic:t{number}") for number in range(6000)]
    one = min(cost_s([{"entries": entries}]) for _ in range(3))
    many = min(cost_s([{"entries": [each]} for each in entries]) for _ in range(2))
    assert many < 6 * one


def test_what_is_written_is_read_again() -> None:
    found = acl(
        entry("Topic:orders*", "Deny", "Pub Sub", "10.0.0.0/8"), entry("*", actions="All"),
        default=[entry("Group:g", actions="get")],
    )  # fmt: skip
    assert Acl.of(found.members()) == found


def test_a_cluster_is_a_resource() -> None:
    found = acl(entry("Cluster:DefaultCluster", actions="Get"))
    assert said(found, cluster("DefaultCluster"), frozenset((Action.GET,))) == ""
    assert said(found, cluster("Other"), frozenset((Action.GET,))) != ""
