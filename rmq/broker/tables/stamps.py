"""Stamps: the versions of a table's items among the shards of a machine, kept in the table's file.

    topics.json    {..,"shardStamps":{"orders":[1763726400000,1],"gone":[1763726400123,0]},
                    "shardOwn":["prices"]}

An item is shared, or this shard's own. Shared items are those that shards make by themselves, with
the stamp of their creation, and those that a broker had before it became one of several shards. Own
items are those that a request to this shard has made or changed: the other shards are not told of
them. A name that has a stamp but is not in the table was deleted here at that time: only an item
made later brings it back. Stamps are in the same file as their items, so a crash leaves both or
neither. RocketMQ ignores these members. A broker alone makes and writes no stamps.

Example: stamps.put("orders", (1763726400000, 1)); stamps.get("other") is None.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rmq.broker.siblings import TOMBSTONE_MS, Stamp

MEMBER, OWN = "shardStamps", "shardOwn"


class Stamps:
    """Owned by its table."""

    def __init__(self) -> None:
        self._by_name: dict[str, Stamp] = {}
        self._own: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._by_name))

    def get(self, name: str) -> Stamp | None:
        return self._by_name.get(name)

    def put(self, name: str, stamp: Stamp | None) -> None:
        """Notes that the item was made or deleted, here or on another shard."""
        self._own.discard(name)
        if stamp is not None:
            self._by_name[name] = stamp

    def is_own(self, name: str) -> bool:
        return name in self._own

    def make_own(self, name: str, stamp: Stamp | None) -> None:
        """Notes that a request to this shard has made or changed the item."""
        if stamp is not None:
            self._own.add(name)

    def admits(self, name: str, stamp: Stamp) -> bool:
        """Whether an item with this stamp may be taken: it was not deleted here since."""
        deleted = self._by_name.get(name)
        return deleted is None or stamp > deleted

    def members(self) -> dict[str, Any]:
        """The members to add to the file's content; none while there are no stamps."""
        content: dict[str, Any] = {}
        if self._by_name:
            content[MEMBER] = {name: list(stamp) for name, stamp in self._by_name.items()}
        if self._own:
            content[OWN] = sorted(self._own)
        return content

    def members_of(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The same for these names only, for the journal: None for a name without a stamp."""
        if not self._by_name and not self._own:
            return {}
        stamps = {name: self._by_name.get(name) for name in names}
        return {
            MEMBER: {name: stamp and list(stamp) for name, stamp in stamps.items()},
            OWN: {name: True if name in self._own else None for name in stamps},
        }

    def load(self, content: Mapping[Any, Any], present: Mapping[str, Any], now_ms: int) -> None:
        """Reads the file's content. Malformed stamps count as missing; old tombstones are
        dropped."""
        table = content.get(MEMBER)
        for name, pair in table.items() if isinstance(table, Mapping) else ():
            if not (isinstance(pair, list) and len(pair) == 2):
                continue
            if not all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in pair):
                continue
            if name in present or pair[0] > now_ms - TOMBSTONE_MS:
                self._by_name[str(name)] = (pair[0], pair[1])
        own = content.get(OWN)
        if isinstance(own, dict):  # a dict after changes from the journal: {name: true}
            own = [name for name, is_own in own.items() if is_own is True]
        self._own = (
            {name for name in own if isinstance(name, str) and name in present}
            if isinstance(own, list)
            else set()
        )
