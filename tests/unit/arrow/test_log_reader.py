"""A file of the log into columns: what damage does to the records beside it, in files made for
that."""

import os
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from support.stored_records import record

pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

from cext.arrow.columns import Columns, Field
from cext.arrow.decoder import DamageMode, Decoder
from cext.arrow.log_reader import LogReader
from rmq.format.message import StoredMessage, encode_message

PHYSICAL_OFFSET_AT = 28
BODY_AT = 88


def log_file(directory: Path, *bodies: bytes, damaged: int) -> Path:
    """Writes records one behind the other; in the body of number `damaged` one bit is flipped."""
    data = bytearray()
    for number, body in enumerate(bodies):
        one = bytearray(record(number, body, topic=b"orders"))
        struct.pack_into(">q", one, PHYSICAL_OFFSET_AT, len(data))
        if number == damaged:
            one[BODY_AT] ^= 1
        data += one
    path = directory / "00000000000000000000"
    path.write_bytes(data)
    return path


def read(path: Path, topic: str, mode: int, columns: Columns) -> None:
    def decide(name: str) -> list[tuple[int, int, int]]:
        return [(-1, 0, 1 << 62)] if name == topic else []

    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        decoder = Decoder(columns, mode=mode)
        reader = LogReader(decoder, file.fileno(), 0, size, 0, size, decide)
        assert reader.fill()


@pytest.mark.parametrize("following", [100, 3 << 20], ids=["in the window", "beyond it"])
def test_a_damaged_body_is_of_its_topic_whatever_follows(tmp_path: Path, following: int) -> None:
    bodies = (b"first", b"x" * 1000, b"y" * following, b"last")
    path = log_file(tmp_path, *bodies, damaged=1)
    with pytest.raises(ValueError, match="the body does not match its checksum"):
        read(path, "orders", DamageMode.FAIL_FAST, Columns([Field.QUEUE_OFFSET]))
    for topic, mode, rows in (
        ("orders", DamageMode.PERMISSIVE, 4),
        ("orders", DamageMode.DROP, 3),
        ("others", DamageMode.FAIL_FAST, 0),
    ):
        columns = Columns([Field.QUEUE_OFFSET])
        read(path, topic, mode, columns)
        assert columns.rows == rows


def spoil(path: Path, number: int, kind: str) -> list[int]:
    """Damages one of six records with bodies of 300 bytes. Returns where each begins, and the
    end."""
    bodies = [bytes([65 + at]) * 300 for at in range(6)]
    log_file(path.parent, *bodies, damaged=-1)
    data = bytearray(path.read_bytes())
    bounds = [data.index(body) - BODY_AT for body in bodies] + [len(data)]
    first, end = bounds[number], bounds[number + 1]
    if kind == "body":
        data[first + BODY_AT] ^= 1
    elif kind == "magic":
        data[first + 4] ^= 0xFF
    elif kind == "length":
        data[first : first + 4] = (1 << 30).to_bytes(4, "big")
    elif kind == "zeros":
        data[first:end] = bytes(end - first)
    elif kind == "two":
        data[first + BODY_AT] ^= 1
        data[end + 4] ^= 0xFF
    elif kind == "two bodies":
        data[first + BODY_AT] ^= 1
        data[end + BODY_AT] ^= 1
    path.write_bytes(data)
    return bounds


@pytest.mark.parametrize("kind", ["body", "magic", "length", "zeros", "two", "two bodies"])
@pytest.mark.parametrize("number", range(6))
def test_wherever_a_log_is_cut_damage_is_told_once(tmp_path: Path, number: int, kind: str) -> None:
    path = tmp_path / "00000000000000000000"
    bounds = spoil(path, min(number, 3) if "two" in kind else number, kind)
    size = bounds[-1]
    near = {at + by for at in bounds for by in (-1, 0, 1, 4, 100)} & set(range(1, size))
    cuts = [(0, cut, size) for cut in sorted(near)]
    cuts += [(0, bounds[at], bounds[at] + 50, size) for at in range(1, 5)]
    cuts.append((*range(0, size, 16), size))
    whole = rows_and_damage(path, (0, size), size)
    for cut in cuts:
        assert rows_and_damage(path, cut, size) == whole, cut
    assert whole == ((4, 2) if "two" in kind else (5, 1))


def test_what_cannot_be_read_is_no_end_of_the_log(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a directory: each read of it fails
    try:
        reader = LogReader(Decoder(Columns([])), descriptor, 0, 1 << 30, 0, 1 << 30, lambda _: [])
        for question in (reader.log_end, reader.first_stored_ms, reader.fill):
            with pytest.raises(OSError, match="the commit log cannot be read at"):
                question()
    finally:
        os.close(descriptor)


def with_properties(*each: bytes) -> tuple[bytes, list[int]]:
    """Records one behind the other, and the end of each."""
    data, ends = b"", []
    for number, properties in enumerate(each):
        data += encode_message(StoredMessage(
            topic="orders", body=b"body", properties_bytes=properties, queue_offset=number,
            physical_offset=len(data),
        ))  # fmt: skip
        ends.append(len(data))
    return data, ends


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_lost_page_takes_the_record_whose_end_is_in_it(tmp_path: Path, is_lost: bool) -> None:
    """A record that ends in zeros must be lost when the page behind it is lost, although its
    lengths and its body are right: its end may lie in that page. With other damage behind it, it
    must be taken as it was stored."""
    data, ends = with_properties(b"A\1a\2", b"A\1\0\0", b"A\1a\2", b"A\1a\2")
    spoiled = bytearray(data)
    if is_lost:
        spoiled[ends[1] : ends[2]] = bytes(ends[2] - ends[1])
    else:
        spoiled[ends[1] + 4] ^= 0xFF
    path = tmp_path / "00000000000000000000"
    path.write_bytes(spoiled)
    assert rows_and_damage(path, (0, len(data)), len(data)) == (2 if is_lost else 3, 1)


@pytest.mark.parametrize("is_followed", [False, True])
def test_the_log_ends_before_a_record_that_is_being_written(
    tmp_path: Path, is_followed: bool
) -> None:
    """The log must end before a record whose body is there, but not all of its properties. If
    another record follows it, its properties do end in zeros, and the log goes on."""
    data, ends = with_properties(*(b"A\1a\2", b"A\1\0\0", b"A\1a\2")[: 2 + is_followed])
    path = tmp_path / "00000000000000000000"
    path.write_bytes(data + bytes(4096))
    size = path.stat().st_size
    with path.open("rb", buffering=0) as file:
        reader = LogReader(Decoder(Columns([])), file.fileno(), 0, size, 0, size, lambda _: [])
        assert reader.log_end() == (ends[-1] if is_followed else ends[0])


def rows_and_damage(path: Path, cut: tuple[int, ...], size: int) -> tuple[int, int]:
    rows = damaged = 0
    for start, end in pairwise(cut):
        columns = Columns([Field.QUEUE_OFFSET])
        decoder = Decoder(columns, mode=DamageMode.DROP)
        with path.open("rb", buffering=0) as file:
            reader = LogReader(decoder, file.fileno(), 0, size, start, end,
                               lambda _: [(-1, 0, 1 << 62)])  # fmt: skip
            assert reader.fill()
        rows += columns.rows
        damaged += decoder.damaged
    return rows, damaged


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, LookupError])
def test_what_the_choice_of_topics_raises_is_raised(tmp_path: Path, error: type) -> None:
    path = log_file(tmp_path, b"first", damaged=-1)

    def decide(name: str) -> list[tuple[int, int, int]]:
        raise error(f"about {name}")

    with path.open("rb", buffering=0) as file:
        size = path.stat().st_size
        decoder = Decoder(Columns([Field.QUEUE_OFFSET]), mode=DamageMode.DROP)
        reader = LogReader(decoder, file.fileno(), 0, size, 0, size, decide)
        with pytest.raises(error, match="about orders"):
            reader.fill()
        assert decoder.damaged == 0
