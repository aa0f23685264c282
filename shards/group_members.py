"""Group members: which consumers of a group are connected to which shard, as one shard knows it.

    members.put(Item(MEMBERS, "billing@1", stamp, b'["ip@7#1"]'))      of shard 1, from its news
    members.elsewhere("billing")                                       ["ip@7#1"], for request 38

Items are found by their group, because clients ask every 20 s for each of their groups, and most
groups belong to others. When a group has gone from a shard, an item without a value is kept, so
that no older item comes back; it is kept as long as the registry keeps such items.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rmq.broker.siblings import TOMBSTONE_MS
from shards.messages import Item


class GroupMembers:
    """Owned by the control thread."""

    def __init__(self, index: int) -> None:
        self._own = str(index)
        self._by_group: dict[str, dict[str, Item]] = {}  # group -> shard -> item
        self._gone: dict[str, int] = {}  # of those without a value: when, ms; the oldest first

    def __iter__(self) -> Iterator[str]:
        """Names of all items, "group@shard"."""
        for group, items in self._by_group.items():
            yield from (f"{group}@{index}" for index in items)

    def get(self, name: str) -> Item | None:
        group, _, index = name.rpartition("@")
        return self._by_group.get(group, {}).get(index)

    def put(self, item: Item) -> None:
        group, _, index = item.name.rpartition("@")
        self._by_group.setdefault(group, {})[index] = item
        self._gone.pop(item.name, None)
        if item.value is None:
            self._gone[item.name] = item.stamp.counter
            self._forget(item.stamp.counter - TOMBSTONE_MS)

    def elsewhere(self, group: str) -> list[str]:
        """Ids of the group's consumers at the other shards."""
        found: list[str] = []
        for index, item in self._by_group.get(group, {}).items():
            if index != self._own and item.value is not None:
                found += msgspec.json.decode(item.value, type=list[str])
        return found

    def _forget(self, before_ms: int) -> None:
        while self._gone:
            name = next(iter(self._gone))
            if self._gone[name] >= before_ms:
                return
            del self._gone[name]
            group, _, index = name.rpartition("@")
            items = self._by_group[group]
            del items[index]
            if not items:
                del self._by_group[group]
