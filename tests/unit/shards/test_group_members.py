"""Goal: a shard finds a group's members at the other shards without a look at all groups, and does
not remember for ever that a shard had some. What shards report: test_bus_siblings.py."""

import json
from collections.abc import Iterator
from typing import Any

from rmq.broker.siblings import TOMBSTONE_MS
from shards.group_members import GroupMembers
from shards.messages import MEMBERS, Item, Stamp


def item(group: str, index: int, *ids: str, at_ms: int = 0) -> Item:
    value = json.dumps(ids).encode() if ids else None
    return Item(MEMBERS, f"{group}@{index}", Stamp(at_ms, index), value)


def test_members_of_the_other_shards_are_found() -> None:
    members = GroupMembers(1)
    for each in (item("g", 0, "a"), item("g", 1, "own"), item("g", 2, "b", "c"), item("h", 0, "d")):
        members.put(each)
    assert members.elsewhere("g") == ["a", "b", "c"]
    assert members.elsewhere("nobody's") == []
    members.put(item("g", 2))
    assert members.elsewhere("g") == ["a"]
    assert sorted(members) == ["g@0", "g@1", "g@2", "h@0"]
    found = members.get("g@1")
    assert found is not None and found.value == b'["own"]'
    assert members.get("g@3") is None


class Groups(dict[str, Any]):
    """Fails if anybody walks over all groups."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all groups are looked at")

    values = items = keys = __iter__  # type: ignore[assignment]


def test_a_group_is_found_without_a_walk_over_all() -> None:
    members = GroupMembers(0)
    for number in range(1000):
        members.put(item(f"g{number}", 1, f"c{number}"))
    members._by_group = Groups(members._by_group)
    assert members.elsewhere("g777") == ["c777"]
    members.put(item("g777", 1))
    assert members.elsewhere("g777") == []


def test_groups_that_are_gone_are_forgotten_when_the_registry_does() -> None:
    members = GroupMembers(0)
    members.put(item("g", 1, at_ms=1000))
    members.put(item("back", 1, at_ms=1000))
    members.put(item("back", 1, "c", at_ms=2000))
    members.put(item("h", 1, at_ms=1000 + TOMBSTONE_MS))
    assert sorted(members) == ["back@1", "g@1", "h@1"]
    members.put(item("i", 1, at_ms=1001 + TOMBSTONE_MS))
    assert sorted(members) == ["back@1", "h@1", "i@1"]
    assert members.elsewhere("back") == ["c"]
