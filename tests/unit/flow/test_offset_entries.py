"""Consumer offsets in the compiled core: copied as a whole, or only those that changed since the
last copy."""

import random
from pathlib import Path

import pytest
from support.shard import Shard

from rmq.broker.tables.offset_entries import Offsets, decoded, encoded
from rmq.errors import ProtocolError

PAIRS = [(topic, group) for topic in (b"t", b"u", b"longer-topic") for group in (b"g", b"h")]


def pair(topic: bytes, group: bytes) -> bytes:
    return topic + b"@" + group


class Model:
    """The table of a core, and the table of a reader that takes each change."""

    def __init__(self, shard: Shard) -> None:
        self.core = shard.core
        self.table: dict[bytes, Offsets] = {}
        self.changed: set[bytes] = set()
        self.reader: dict[bytes, Offsets] = {}

    def commit(self, topic: bytes, group: bytes, queue: int, offset: int) -> None:
        self.core.commit_offset(group, topic, queue, offset)
        entry = self.table.setdefault(pair(topic, group), Offsets({}, {}))
        if queue not in entry.resets and entry.committed.get(queue) != offset:
            entry.committed[queue] = offset
            self.changed.add(pair(topic, group))

    def reset(self, topic: bytes, group: bytes, queue: int, offset: int) -> None:
        self.core.reset_offset(group, topic, queue, offset)
        entry = self.table.setdefault(pair(topic, group), Offsets({}, {}))
        entry.committed[queue] = entry.resets[queue] = offset
        self.changed.add(pair(topic, group))

    def remove(self, topic: bytes | None, group: bytes | None) -> None:
        self.core.remove_offsets(group, topic)
        for each in PAIRS:
            is_meant = topic in (None, each[0]) and group in (None, each[1])
            if is_meant and self.table.pop(pair(*each), None) is not None:
                self.changed.add(pair(*each))

    def take(self) -> None:
        taken = dict(decoded(self.core.take_changed_offsets()))
        assert taken.keys() == self.changed
        self.changed.clear()
        for name, offsets in taken.items():
            if offsets is None:
                self.reader.pop(name, None)
            else:
                self.reader[name] = offsets
        assert self.reader == self.table
        assert dict(decoded(self.core.offset_entries())) == self.table


@pytest.mark.parametrize("seed", range(8))
def test_who_takes_the_changes_has_what_the_core_has(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    with Shard(tmp_path) as shard:
        model = Model(shard)
        for _ in range(600):
            topic, group = chance.choice(PAIRS)
            queue, offset = chance.choice((0, 1, 7, 8, 40)), chance.randrange(3)
            step = chance.randrange(20)
            if step < 14:
                model.commit(topic, group, queue, offset)
            elif step < 16:
                model.reset(topic, group, queue, offset)
            elif step < 18:
                model.remove(*chance.choice(((topic, None), (None, group), (topic, group))))
            else:
                model.take()
        model.take()
        model.take()
        model.remove(None, None)
        model.commit(b"t", b"g", 3, 1)
        # the core is closed while entries are in its list


def test_more_changes_than_a_turn_takes(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        wanted = {pair(b"t", b"g%d" % n): Offsets({0: n}, {}) for n in range(10_000)}
        shard.core.put_offsets(b"".join(encoded(*item) for item in wanted.items()))
        assert dict(decoded(shard.core.take_changed_offsets())) == wanted
        assert shard.core.take_changed_offsets() == b""
        shard.core.commit_offset(b"g77", b"t", 2, 5)
        changed = dict(decoded(shard.core.take_changed_offsets()))
        assert changed == {b"t@g77": Offsets({0: 77, 2: 5}, {})}


def test_entries_that_were_put_are_those_that_are_copied(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard:
        entry = Offsets({0: 4, 9: 2**63 - 1}, {9: 2**63 - 1})
        shard.core.put_offsets(encoded(b"t@g", entry))
        assert dict(decoded(shard.core.offset_entries())) == {b"t@g": entry}
        assert shard.core.offsets(2) == {b"t@g": {9: 2**63 - 1}}


@pytest.mark.parametrize("cut", [1, 7, 8, 10, -1])
def test_entries_that_are_cut_are_refused(cut: int, tmp_path: Path) -> None:
    block = encoded(b"t@g", Offsets({0: 4}, {}))
    with Shard(tmp_path) as shard, pytest.raises(ProtocolError):
        shard.core.put_offsets(block[:cut])


def test_an_entry_without_a_separator_is_refused(tmp_path: Path) -> None:
    with Shard(tmp_path) as shard, pytest.raises(ProtocolError):
        shard.core.put_offsets(encoded(b"t", Offsets({0: 4}, {})))
