"""The records of a journal after each cut and each flipped bit, and when it accepts no more."""

import errno
import os
from pathlib import Path

import pytest

from rmq.base.journal_file import HEAD, JournalFile

RECORDS = [(3, b"three"), (4, b""), (9, b"RMQJ" * 20)]


def made(path: Path) -> JournalFile:
    journal = JournalFile(path)
    journal.create("id", {"topics.json": 2})
    for sequence, payload in RECORDS:
        journal.append(sequence, payload)
    return journal


def ends(path: Path) -> list[int]:
    """Where the header and each record end."""
    sizes = [HEAD.size + len(payload) for _, payload in RECORDS]
    size = path.stat().st_size
    return [size - sum(sizes[at:]) for at in range(len(sizes) + 1)]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    size = made(tmp_path / "j").append(10, b"ten")
    content = JournalFile(tmp_path / "j").read()
    assert (content.identity, content.records) == ("id", [*RECORDS, (10, b"ten")])
    assert (content.damage, content.bases) == ("", {"topics.json": 2})
    assert (size, content.size_bytes) == (HEAD.size + 3, (tmp_path / "j").stat().st_size)


def test_a_journal_cut_anywhere_has_the_records_before_the_cut(tmp_path: Path) -> None:
    made(path := tmp_path / "j")
    data, places = path.read_bytes(), ends(path)
    for size in range(places[0], len(data)):
        path.write_bytes(data[:size])
        journal = JournalFile(path)
        content = journal.read()
        assert content.records == RECORDS[: sum(place <= size for place in places[1:])]
        assert content.is_torn == bool(content.damage) == (size not in places)
        assert journal.is_appendable == (size in places)


@pytest.mark.parametrize("identity", ["", "id"])
def test_a_flipped_bit_costs_its_record_alone(tmp_path: Path, identity: str) -> None:
    made(path := tmp_path / "j")
    data, places = path.read_bytes(), ends(path)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        journal = JournalFile(path)
        content = journal.read(identity)
        hit = sum(place <= bit // 8 for place in places)  # 0: the header was hit
        left = [each for number, each in enumerate(RECORDS, 1) if number != hit]
        assert content.records == (left if hit or identity else [])
        assert content.identity == ("id" if hit or identity else "")
        assert content.damage and content.is_torn == (hit == len(RECORDS))
        assert not journal.is_appendable


def test_records_of_another_journal_are_none_of_this_one(tmp_path: Path) -> None:
    """Records of another journal must not be read as this one's. They could get into it when a file
    system gives a file a block of another one."""
    JournalFile(tmp_path / "other").create("other", {}, [(10, b"ten")])
    journal = made(path := tmp_path / "j")
    path.write_bytes(path.read_bytes() + (tmp_path / "other").read_bytes())
    content = journal.read()
    assert content.records == RECORDS and content.is_torn


def test_nothing_is_appended_after_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed sync nothing may be appended: a later sync of the file would succeed without
    covering what the failed one lost."""
    journal = made(path := tmp_path / "j")
    fails = OSError(errno.EIO, os.strerror(errno.EIO))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(fails))
        with pytest.raises(OSError, match="Input/output"):
            journal.append(10, b"ten")
    size = path.stat().st_size
    assert not journal.is_appendable
    with pytest.raises(OSError, match="an append has failed"):
        journal.append(11, b"eleven")
    assert path.stat().st_size == size
    journal.create("id", {})
    journal.append(11, b"eleven")
    assert journal.read().records == [(11, b"eleven")]


def test_nothing_is_appended_to_a_file_that_somebody_else_has_changed(tmp_path: Path) -> None:
    journal = made(path := tmp_path / "j")
    data = path.read_bytes()
    for change in (data[:-1], data + b"x"):
        journal.create("id", {}, RECORDS)
        path.write_bytes(change + b"x")
        with pytest.raises(OSError, match="somebody else has written"):
            journal.append(10, b"ten")
        assert path.read_bytes() == change + b"x"
    journal.create("id", {})
    path.unlink()
    with pytest.raises(FileNotFoundError):
        journal.append(10, b"ten")


def test_a_journal_that_was_not_read_takes_nothing(tmp_path: Path) -> None:
    made(tmp_path / "j")
    with pytest.raises(OSError, match="was not read"):
        JournalFile(tmp_path / "j").append(10, b"ten")


def test_too_long_a_record_is_refused_before_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is too long must be refused before it is written, because read() takes such a
    length for damage."""
    monkeypatch.setattr("rmq.base.journal_file.PAYLOAD_BYTES_MAX", 100)
    journal = made(path := tmp_path / "j")
    size = path.stat().st_size
    with pytest.raises(OSError, match="101 bytes are too many"):
        journal.append(10, bytes(101))
    assert path.stat().st_size == size
