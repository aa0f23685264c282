"""Packed policies: an ACL as bytes for the reactor (cext/flow/auth/user_table.pxd), and white lists
(cext/flow/auth/white_list.pxd).

Entries about something that no request touches (Namespace) are left out. Entries are in the order
in which the reactor searches them, so that it need not sort them in one of its turns.

Example: packed(Acl()) is b"".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from rmq.auth.policy import Acl, Action, Decision, PolicyEntry, PolicyType
from rmq.auth.resource import ResourceType
from rmq.auth.white_list import Part, WhiteList
from rmq.base import networks

_HEAD = struct.Struct(">BBBBHHH")
_TYPES = {
    ResourceType.ANY: 0,
    ResourceType.CLUSTER: 1,
    ResourceType.TOPIC: 2,
    ResourceType.GROUP: 3,
}
_ACTIONS = {action: 1 << bit for bit, action in enumerate(Action)}


def packed(acl: Acl) -> bytes:
    return b"".join(
        _entry(kind, entry)
        for kind in PolicyType
        for entry in sorted(acl.policies.get(kind, ()), key=_place)
        if entry.resource.type in _TYPES
    )


def _place(entry: PolicyEntry) -> tuple[int, bytes, int, bool]:
    """Sort key: entries that cover more come first; of equal ones, the one that counts is last."""
    resource = entry.resource
    kind = _TYPES.get(resource.type, len(_TYPES))
    return kind, _name(entry), -resource.pattern, entry.decision is Decision.DENY


def _name(entry: PolicyEntry) -> bytes:
    return entry.resource.name.encode("utf-8", "replace")


def packed_addresses(lists: Iterable[WhiteList]) -> bytes:
    """The white lists as bytes; empty: nobody."""
    return b"".join(
        b"\0" if each.everybody else b"".join(map(_pattern, each.patterns)) for each in lists
    )


def _pattern(pattern: tuple[Part, ...]) -> bytes:
    parts = (
        struct.pack(f">H{2 * len(part)}H", len(part), *(end for ends in part for end in ends))
        for part in pattern
    )
    return bytes((len(pattern),)) + b"".join(parts)


def _entry(kind: PolicyType, entry: PolicyEntry) -> bytes:
    name = _name(entry)
    sources = entry.sources.networks if entry.source_ips else []
    head = _HEAD.pack(
        list(PolicyType).index(kind),
        _TYPES[entry.resource.type],
        entry.resource.pattern,
        int(entry.decision is Decision.DENY),
        sum(_ACTIONS[action] for action in entry.actions),
        len(sources),
        len(name),
    )
    return head + name + b"".join(map(networks.packed, sources))
