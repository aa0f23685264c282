"""Goal: batches come in the order of their parts, whichever part is faster. Memory stays bounded.
What a part raises comes in its place. Nothing is read ahead when nobody takes batches.

Method: parts that are held at gates. Not shown here: that reading several at once is faster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from support.waiting import HANG_S, wait_until

from rmq.arrow.read_ahead import AHEAD, in_order

THREADS = [1, 2, 3, 8]


class Parts:
    """Parts of `count` numbers each; the first part waits at the gate before its first number."""

    def __init__(self, parts: int, count: int) -> None:
        self.gate = threading.Event()
        self.given = [0] * parts
        self.count = count

    def part(self, number: int) -> Iterator[tuple[int, int]]:
        if number == 0:
            assert self.gate.wait(HANG_S)
        for at in range(self.count):
            self.given[number] += 1
            yield number, at

    def all(self) -> list[partial[Iterator[tuple[int, int]]]]:
        return [partial(self.part, number) for number in range(len(self.given))]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("count", [0, 1, 3 * AHEAD])
def test_order_does_not_depend_on_who_is_faster(threads: int, count: int) -> None:
    parts = Parts(5, count)
    parts.gate.set()
    wanted = [(number, at) for number in range(5) for at in range(count)]
    assert list(in_order(parts.all(), threads)) == wanted


def test_each_thread_is_ahead_by_so_many_and_no_more() -> None:
    parts = Parts(6, 3 * AHEAD)
    found: list[tuple[int, int]] = []
    taking = threading.Thread(target=lambda: found.extend(in_order(parts.all(), 3)))
    taking.start()
    # One more is made, and waits for room.
    wait_until(lambda: parts.given == [0, AHEAD + 1, AHEAD + 1, 0, 0, 0])
    parts.gate.set()
    taking.join(HANG_S)
    assert len(found) == 6 * 3 * AHEAD and parts.given == [3 * AHEAD] * 6


@pytest.mark.parametrize("count", [1, 2, AHEAD])
def test_small_parts_are_not_begun_far_ahead(count: int) -> None:
    parts = Parts(30, count)
    parts.gate.set()
    batches = in_order(parts.all(), 3)
    for number in range(30):
        assert next(batches)[0] == number
        # All of three parts are read: the one that is being taken, and the next two.
        wait_until(lambda number=number: sum(parts.given) == min(number + 3, 30) * count)
        for _ in range(count - 1):
            next(batches)
    assert list(batches) == []


@pytest.mark.parametrize("threads", THREADS)
def test_what_a_part_raises_comes_in_its_place(threads: int) -> None:
    def failing() -> Iterator[tuple[int, int]]:
        yield 9, 9
        raise OSError("of the test")

    parts = Parts(2, 3)
    parts.gate.set()
    found = []
    first, second = parts.all()
    with pytest.raises(OSError, match="of the test"):
        for each in in_order([first, failing, second], threads):
            found.append(each)
    assert found == [(0, 0), (0, 1), (0, 2), (9, 9)]


def test_nobody_reads_on_when_the_iterator_is_closed() -> None:
    parts = Parts(8, 100)
    parts.gate.set()
    batches = in_order(parts.all(), 2)
    assert next(batches) == (0, 0)
    batches.close()
    wait_until(lambda: not [each for each in threading.enumerate()
                            if each.name.startswith("rmq-read-")])  # fmt: skip
    assert sum(parts.given) <= 2 * (AHEAD + 2)
