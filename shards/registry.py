"""Registry: the items that all shards share, as the supervisor keeps them: (kind, name) -> Item.

One rule brings all copies together: of two versions of an item the one with the larger stamp wins,
everywhere. So a message that comes twice changes nothing, two that come in the wrong order have the
same result as in the right one, and what was lost is found by comparing stamps (Sync). A deleted
item stays as a tombstone (value None), else a shard that was away would bring it back. For topics
and groups the registry holds the newest version from any shard; whether a shard takes it over is
decided by that shard's tables (bus_siblings.py).

    registry.merge([Item("topic", "t", Stamp(5, 0), b"{..}")])   -> that item: it is news
    registry.merge([Item("topic", "t", Stamp(4, 1), b"{..}")])   -> nothing: older
    registry.compare([Known("topic", "t", Stamp(9, 1))])         -> ([], [Known("topic", "t", ..)])
                                                                    nothing newer here; wanted: t

The registry is in memory only: each shard keeps its items and stamps in its own config files, and a
new supervisor learns them from the shards.
"""

from __future__ import annotations

from collections.abc import Iterable

from rmq.broker.siblings import TOMBSTONE_MS
from shards.messages import KINDS, MEMBERS, Item, Known, Stamp


class Registry:
    """Owned by the supervisor's loop."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], Item] = {}
        self.counter = 0  # the largest of any stamp seen

    def __len__(self) -> int:
        return len(self._items)

    def get(self, kind: str, name: str) -> Item | None:
        return self._items.get((kind, name))

    def merge(self, items: Iterable[Item]) -> list[Item]:
        """Takes over the items that are newer, and returns these."""
        accepted = []
        for item in items:
            if item.kind not in KINDS:
                continue
            self.counter = max(self.counter, item.stamp.counter)
            present = self._items.get((item.kind, item.name))
            if present is None or item.stamp > present.stamp:
                self._items[item.kind, item.name] = item
                accepted.append(item)
        return accepted

    def compare(self, have: Iterable[Known]) -> tuple[list[Item], list[Known]]:
        """(items that are newer here, items that are newer at the shard)."""
        theirs = {(known.kind, known.name): known for known in have}
        newer = [
            item
            for key, item in self._items.items()
            if key not in theirs or item.stamp > theirs[key].stamp
        ]
        wanted = []
        for key, known in theirs.items():
            present = self._items.get(key)
            if known.kind in KINDS and (present is None or known.stamp > present.stamp):
                wanted.append(known)
        return newer, wanted

    def without_members(self, index: int) -> list[Item]:
        """Tombstones for the members of shard `index`, which is gone with all its connections."""
        gone = [
            item
            for (kind, name), item in self._items.items()
            if kind == MEMBERS and name.endswith(f"@{index}") and item.value is not None
        ]
        tombstones = [
            Item(item.kind, item.name, Stamp(self.counter + 1, index), None) for item in gone
        ]
        return self.merge(tombstones)

    def forget_tombstones(self, now_ms: int) -> int:
        """Drops tombstones older than TOMBSTONE_MS; returns how many."""
        limit = now_ms - TOMBSTONE_MS
        old = [
            key
            for key, item in self._items.items()
            if item.value is None and item.stamp.counter < limit
        ]
        for key in old:
            del self._items[key]
        return len(old)
