"""Shards file: how many shards a store has, and which take no sends: <store>/config/shards.json.

    {"drained":[1],"shards":2}

The file exists once a store was started with more than one shard. A start with more shards than it
says grows the broker: each new shard is counted when its port is bound and its store open, but no
client knows it yet. So when a new shard fails before that (its port is in use, say), the next start
can do without it, and no shard that is not counted has acknowledged anything. A start with fewer
shards is refused, because the messages of the others would be out of reach; `rmq broker shrink`
removes shards safely.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rmq.base.json_file import JsonFile
from rmq.errors import ConfigError
from shards.placement import SHARDS_MAX, shard_store


class ShardsState(msgspec.Struct, frozen=True):
    shards: int = 1
    drained: tuple[int, ...] = ()


class ShardsFile:
    """The shards file of one store."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._file = JsonFile(
            store / "config" / "shards.json",
            advice=f'Write {{"shards":N}} into it, N one more than there are folders '
            f"{shard_store(store, 1).parent}/shard-*: with fewer, messages are out of reach.",
        )

    def load(self) -> ShardsState:
        """ConfigError when the file is damaged: guessing the number could hide messages."""
        content = self._file.load()
        if content is None:
            return ShardsState()
        shards, drained = content.get("shards"), content.get("drained", [])
        if (
            not isinstance(shards, int)
            or not 1 <= shards <= SHARDS_MAX
            or not isinstance(drained, list)
            or not all(isinstance(each, int) for each in drained)
        ):
            raise ConfigError(f"{self._file.path} is damaged: {str(content)[:200]}")
        return ShardsState(shards, tuple(each for each in drained if 0 <= each < shards))

    def save(self, state: ShardsState) -> None:
        self._file.save({"drained": sorted(state.drained), "shards": state.shards})

    def count(self, asked: int | None) -> int:
        """The number of shards to start when `asked` are wanted (None: as many as there are)."""
        present = self.load().shards
        if asked is None:
            return present
        if asked < present:
            raise ConfigError(
                f"--shards {asked}: the store {self._store} has {present} shards, and the messages "
                f"in {shard_store(self._store, present - 1)} would be out of reach. Start it with "
                f"--shards {present}, then run "
                f"`rmq broker shrink --store {self._store} --shards {asked}`"
            )
        return asked
