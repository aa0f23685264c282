"""Offset entries: consumer offsets of topic@group pairs, many in one block of bytes.

    u32 name bytes | u32 slots | name | an i64 for each slot | a u8 for each slot

Slot n is queue n: its offset (-1 when none was committed) and 1 if an operator has reset it. Byte
order is native, as blocks only go between the core and the control thread (offset_calls.pyx) and
are never stored. An entry that was removed has no slots.

Example: {b"t@g": ({0: 7, 2: 9}, {2: 9})} has 3 slots, 7, -1 and 9, of which the last is reset.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

HEAD = struct.Struct("=II")


class Offsets(NamedTuple):
    """The offsets of a topic@group pair."""

    committed: dict[int, int]  # by queue id, including those that were reset
    resets: dict[int, int]  # resets that no pull has been answered with


Entries = Mapping[bytes, Offsets | None]  # None: removed


def encoded(name: bytes, offsets: Offsets | None) -> bytes:
    committed, resets = offsets or ({}, {})
    slots = max((*committed, *resets), default=-1) + 1
    numbers = [resets.get(queue, committed.get(queue, -1)) for queue in range(slots)]
    marks = bytes(queue in resets for queue in range(slots))
    return HEAD.pack(len(name), slots) + name + struct.pack(f"={slots}q", *numbers) + marks


def decoded(block: bytes) -> Iterator[tuple[bytes, Offsets | None]]:
    """The pairs in the order of the block; if a pair comes twice, the last one counts."""
    at = 0
    while at < len(block):
        name_bytes, slots = HEAD.unpack_from(block, at)
        begin = at + HEAD.size + name_bytes
        numbers = struct.unpack_from(f"={slots}q", block, begin)
        marks = block[begin + 8 * slots : begin + 9 * slots]
        name = block[at + HEAD.size : begin]
        at = begin + 9 * slots
        if not slots:
            yield name, None
            continue
        committed = {queue: offset for queue, offset in enumerate(numbers) if offset >= 0}
        resets = {queue: numbers[queue] for queue, mark in enumerate(marks) if mark}
        yield name, Offsets(committed, resets)
