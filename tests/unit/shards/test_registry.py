"""Of two versions of an item the one with the larger stamp wins, in whatever order and however
often they come."""

import itertools
import random

from rmq.broker.siblings import TOMBSTONE_MS
from shards.messages import MEMBERS, TOPIC, Item, Known, Stamp
from shards.registry import Registry


def topic(name: str, counter: int, origin: int = 0, value: bytes | None = b"{}") -> Item:
    return Item(TOPIC, name, Stamp(counter, origin), value)


def test_newer_is_taken_older_and_equal_are_not() -> None:
    registry = Registry()
    assert registry.merge([topic("t", 5)]) == [topic("t", 5)]
    assert registry.merge([topic("t", 5), topic("t", 4, 9)]) == []
    assert registry.merge([topic("t", 5, 1)]) == [topic("t", 5, 1)]
    assert registry.counter == 5


def test_any_order_and_any_repetition_ends_alike() -> None:
    items = [topic("t", 1), topic("t", 2, 1, None), topic("t", 2, 0, b"[]"), topic("u", 7)]
    for order in itertools.permutations(items):
        registry = Registry()
        for item in order + order[::2]:
            registry.merge([item])
        assert registry.get(TOPIC, "t") == topic("t", 2, 1, None)
        assert registry.get(TOPIC, "u") == topic("u", 7)


def test_tables_that_lost_messages_are_equal_after_one_comparison_each_way() -> None:
    chance = random.Random(7)
    for _ in range(50):
        changes = [
            topic(f"t{chance.randrange(5)}", counter, chance.randrange(3),
                  chance.choice((None, b"1", b"2")))
            for counter in range(30)
        ]  # fmt: skip
        one, two = Registry(), Registry()
        for change in changes:  # each registry gets half of the changes, in its own order
            for registry in (one, two):
                if chance.random() < 0.5:
                    registry.merge([change])
        have = [Known(i.kind, i.name, i.stamp) for i in two._items.values()]
        newer, wanted = one.compare(have)
        two.merge(newer)
        one.merge(two._items[each.kind, each.name] for each in wanted)
        assert one._items == two._items


def test_unknown_kinds_are_left_out() -> None:
    registry = Registry()
    strange = Item("strange", "x", Stamp(1, 0), b"1")
    assert registry.merge([strange]) == []
    assert registry.compare([Known("strange", "x", Stamp(1, 0))]) == ([], [])


def test_members_of_a_shard_that_ended_become_tombstones() -> None:
    registry = Registry()
    registry.merge([Item(MEMBERS, f"g@{index}", Stamp(9, index), b'["c"]') for index in (1, 11)])
    gone = registry.without_members(1)
    assert [(item.name, item.value) for item in gone] == [("g@1", None)]
    assert gone[0].stamp > Stamp(9, 1)
    assert registry.without_members(1) == []


def test_tombstones_are_forgotten_after_a_month_and_nothing_else() -> None:
    registry = Registry()
    registry.merge([topic("old", 1000, value=None), topic("kept", 1000)])
    assert registry.forget_tombstones(1000 + TOMBSTONE_MS) == 0
    assert registry.forget_tombstones(1001 + TOMBSTONE_MS) == 1
    assert len(registry) == 1
