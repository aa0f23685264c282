"""Policy: what a user is allowed or denied, and which of several matching entries counts.

    ACL of User:alice
      Custom   Topic:orders*   Pub Sub   from 10.0.0.0/8   Allow      looked at first
      Default  *               All                         Deny       if no Custom entry matches

Of the entries that match, the one nearest to the resource counts: an entry of the resource's type
before `*`; its whole name, then the longest beginning, then all names. Among equal ones a Deny
counts. (In RocketMQ 5.3.3 and older an Allow counts, and shorter beginnings before longer ones.)

Entries are looked up by the name that a request touches, and those that do not cover it are not
looked at: a user may have ten thousand entries, and a heartbeat may touch as many names.

Example: Topic:orders* Allow Pub and Topic:orders-eu Deny All: a send to orders-eu is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from rmq import names
from rmq.auth.resource import Pattern, Resource, ResourceType
from rmq.base import networks
from rmq.base.networks import Address, Network, NetworkSet
from rmq.errors import ProtocolError


class Action(Enum):
    """RocketMQ's actions; ALL stands for each of them, and no entry may have Any."""

    ALL = "All"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


SOURCE_IPS_MAX = 1000  # of an entry
NAME_CHARACTERS_MAX = 255

_ACTIONS = {each.value.lower(): each for each in Action}
_DECISIONS = {each.value.lower(): each for each in Decision}
_POLICY_TYPES = {each.value.lower(): each for each in PolicyType}


class PolicyEntry(msgspec.Struct, frozen=True, dict=True):
    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    source_ips: tuple[str, ...] = ()  # addresses and CIDR blocks; empty: from anywhere

    @classmethod
    def of(cls, members: Any) -> PolicyEntry:
        """Reads an entry; ProtocolError, with RocketMQ's text, if it is none."""
        if not isinstance(members, Mapping):
            raise ProtocolError("The resource is null.")
        resource = Resource.of(_text(members.get("resource")))
        if resource is None or len(resource.name) > NAME_CHARACTERS_MAX:
            raise ProtocolError("The resource is null.")
        actions = _texts(members.get("actions"))
        if not actions:
            raise ProtocolError("The actions is empty.")
        if any(each.lower() == "any" for each in actions):
            raise ProtocolError("The actions can not be Any.")
        if any(each.lower() not in _ACTIONS for each in actions):
            raise ProtocolError("The actions is empty.")
        source_ips = _texts(members.get("sourceIps"))
        if len(source_ips) > SOURCE_IPS_MAX:
            raise ProtocolError("The source ip is invalid.")
        for each in source_ips:
            _network(each)
        decision = _DECISIONS.get(_text(members.get("decision")).lower())
        if decision is None:
            raise ProtocolError("The decision is null or illegal.")
        found = frozenset(_ACTIONS[each.lower()] for each in actions)
        return cls(resource, found, decision, tuple(source_ips))

    def members(self) -> dict[str, Any]:
        return {
            "resource": str(self.resource),
            "actions": [each.value for each in Action if each in self.actions],
            "sourceIps": list(self.source_ips),
            "decision": self.decision.value,
        }

    @cached_property
    def sources(self) -> NetworkSet:
        return _network_set(self.source_ips)

    def matches(self, actions: frozenset[Action], source: Address | None) -> bool:
        """Whether the entry is about one of these actions from this source; the resource was
        matched before."""
        if Action.ALL not in self.actions and self.actions.isdisjoint(actions):
            return False
        return not self.source_ips or (source is not None and source in self.sources)


class _Names:
    """Entries of one type, by their names; for the same name those that deny come first."""

    __slots__ = ("beginnings", "every", "lengths", "whole")

    def __init__(self) -> None:
        self.whole: dict[str, list[PolicyEntry]] = {}
        self.beginnings: dict[str, list[PolicyEntry]] = {}
        self.lengths: list[int] = []  # of the beginnings, the longest first
        self.every: list[PolicyEntry] = []

    def add(self, entry: PolicyEntry) -> None:
        name, pattern = entry.resource.name, entry.resource.pattern
        if pattern is Pattern.ANY:
            same = self.every
        else:
            table = self.whole if pattern is Pattern.LITERAL else self.beginnings
            same = table.setdefault(name, [])
        same.insert(0 if entry.decision is Decision.DENY else len(same), entry)


_NO_NAMES = _Names()


class _Index:
    """The entries of one policy. A search takes one look-up for each length that beginnings have;
    there are few lengths, and at most NAME_CHARACTERS_MAX."""

    def __init__(self, entries: Iterable[PolicyEntry]) -> None:
        self._by_type: dict[ResourceType, _Names] = {}
        for entry in entries:
            self._by_type.setdefault(entry.resource.type, _Names()).add(entry)
        for found in self._by_type.values():
            found.lengths = sorted(set(map(len, found.beginnings)), reverse=True)
        self._everything = self._by_type.get(ResourceType.ANY, _NO_NAMES).every

    def covering(self, resource: Resource) -> Iterator[PolicyEntry]:
        """The entries that cover the resource, which is no pattern; the nearest first."""
        name, of_type = resource.name, self._by_type.get(resource.type, _NO_NAMES)
        yield from of_type.whole.get(name, ())
        if resource.type is ResourceType.TOPIC and names.is_inner(name):
            return
        for length in of_type.lengths:
            if length <= len(name):
                yield from of_type.beginnings.get(name[:length], ())
        yield from of_type.every
        yield from self._everything


class Acl(msgspec.Struct, frozen=True, dict=True):
    """All policies of a user."""

    policies: Mapping[PolicyType, tuple[PolicyEntry, ...]] = {}

    @classmethod
    def of(cls, policies: Any) -> Acl:
        """Reads RocketMQ's list of policies; ProtocolError if it is none."""
        if not isinstance(policies, list) or not policies:
            raise ProtocolError("The policies is empty.")
        found: dict[PolicyType, dict[Resource, PolicyEntry]] = {}
        for each in policies:
            if not isinstance(each, Mapping):
                raise ProtocolError("The policies is empty.")
            of_kind = found.setdefault(policy_type(each.get("policyType")), {})
            entries = each.get("entries")
            if not isinstance(entries, list) or not entries:
                raise ProtocolError("The policy entries is empty.")
            for entry in map(PolicyEntry.of, entries):
                of_kind[entry.resource] = entry
        return cls({kind: tuple(of_kind.values()) for kind, of_kind in found.items()})

    def members(self) -> list[dict[str, Any]]:
        return [
            {"policyType": kind.value, "entries": [each.members() for each in self.policies[kind]]}
            for kind in PolicyType
            if self.policies.get(kind)
        ]

    def merged(self, kind: PolicyType, entries: Iterable[PolicyEntry]) -> Acl:
        """The ACL with these entries, which replace those of the same resources."""
        found = {each.resource: each for each in self.policies.get(kind, ())}
        found.update((each.resource, each) for each in entries)
        policies = {**self.policies, kind: tuple(found.values())}
        return msgspec.structs.replace(self, policies=policies)

    def without(self, kind: PolicyType, resource: Resource) -> Acl:
        kept = tuple(each for each in self.policies.get(kind, ()) if each.resource != resource)
        others = {each: entries for each, entries in self.policies.items() if each is not kind}
        return Acl({**others, kind: kept} if kept else others)

    @property
    def is_empty(self) -> bool:
        return not any(self.policies.values())

    def decision(
        self, resource: Resource, actions: frozenset[Action], source: Address | None
    ) -> Decision | None:
        """Allow or deny; None: no entry matches."""
        for index in self._indexes:
            for entry in index.covering(resource):
                if entry.matches(actions, source):
                    return entry.decision
        return None

    @cached_property
    def _indexes(self) -> tuple[_Index, ...]:
        return tuple(_Index(self.policies[kind]) for kind in PolicyType if kind in self.policies)


def policy_type(given: Any) -> PolicyType:
    """The type of a policy; Custom if none is given."""
    return _POLICY_TYPES.get(_text(given).lower(), PolicyType.CUSTOM)


@lru_cache(maxsize=256)  # many entries name the same places
def _network_set(texts: tuple[str, ...]) -> NetworkSet:
    return NetworkSet(map(_network, texts))


@lru_cache(maxsize=1024)
def _network(text: str) -> Network:
    try:
        return networks.network(text)
    except ValueError:
        raise ProtocolError("The source ip is invalid.") from None


def _text(given: Any) -> str:
    return given.strip() if isinstance(given, str) else ""


def _texts(given: Any) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ProtocolError(f"no list of texts: {given!r:.100}")
    return [each.strip() for each in given]
