"""The versions of a table's items on a machine of several shards, kept in the table's own file.

    topics.json    {..,"shardStamps":{"orders":[1763726400000,1],"gone":[1763726400123,0]}}

A name that has a stamp but is not in the table was deleted: the stamp is its tombstone, so that a
shard that was away does not bring it back. They stand in the same file as what they belong to: a
crash leaves both or neither. RocketMQ ignores the member; a file that it has written has none, and
its items then lose against any that carry a stamp. A broker alone makes none and writes none.

Example: stamps.put("orders", (1763726400000, 1)); stamps.get("other") is None.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rmq.broker.siblings import Stamp

MEMBER = "shardStamps"
TOMBSTONE_MS = 30 * 86_400_000


class Stamps:
    """Owned by its table."""

    def __init__(self) -> None:
        self._by_name: dict[str, Stamp] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._by_name))

    def get(self, name: str) -> Stamp | None:
        return self._by_name.get(name)

    def put(self, name: str, stamp: Stamp | None) -> None:
        if stamp is not None:
            self._by_name[name] = stamp

    def members(self) -> dict[str, dict[str, list[int]]]:
        """What is added to the file's content; nothing while there are none."""
        if not self._by_name:
            return {}
        return {MEMBER: {name: list(stamp) for name, stamp in self._by_name.items()}}

    def load(self, content: Mapping[Any, Any], present: Mapping[str, Any], now_ms: int) -> None:
        """From the file's content. Malformed ones count as missing, old tombstones are dropped."""
        table = content.get(MEMBER)
        for name, pair in table.items() if isinstance(table, Mapping) else ():
            if not (isinstance(pair, list) and len(pair) == 2):
                continue
            if not all(isinstance(n, int) and -(2**63) <= n < 2**63 for n in pair):
                continue
            if name in present or pair[0] > now_ms - TOMBSTONE_MS:
                self._by_name[str(name)] = (pair[0], pair[1])
