"""The file that holds the epochs of a log.

Goal: it is read and written in RocketMQ's form. Any damage is noticed. A damaged file has a copy;
if both are damaged the start ends with advice.
"""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq.broker.replication.epoch_file import EpochFile, decode, encode, epoch_path
from rmq.broker.replication.epochs import Epochs
from rmq.config import load_properties
from rmq.errors import StoreCorruptError

EPOCHS = Epochs.of([(1, 0), (2, 4096)])
LINES = b"1-0\n2-4096\n"
CONTENT = b"2\n%d\n%b" % (zlib.crc32(LINES) & 0x7FFFFFFF, LINES)


def test_the_form_is_that_of_rocketmq(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "store" / "epochFileCheckpoint")
    assert file.read() == Epochs()
    file.write(EPOCHS)
    assert file.path.read_bytes() == CONTENT
    assert file.read() == EPOCHS
    file.write(EPOCHS.begun(3, 5000))
    assert EpochFile(file.path).read().last_epoch == 3
    file.write(Epochs())
    assert list(file.path.parent.iterdir()) == [] and file.read() == Epochs()


def test_files_of_rocketmq_are_read() -> None:
    assert decode(b"2\n0\n" + LINES) == EPOCHS  # without a checksum
    windows = LINES.replace(b"\n", b"\r\n")
    crc = zlib.crc32(windows) & 0x7FFFFFFF
    assert decode(b"2\r\n%d\r\n%b" % (crc, windows)) == EPOCHS


@pytest.mark.parametrize("damage", [None, b"", b"2\n1\n" + LINES, CONTENT[:-3]])
def test_the_copy_is_used_where_the_file_is_damaged(tmp_path: Path, damage: bytes | None) -> None:
    file = EpochFile(tmp_path / "e")
    file.write(Epochs.of([(1, 0)]))
    file.write(EPOCHS)
    if damage is None:
        file.path.unlink()
    else:
        file.path.write_bytes(damage)
    assert file.read() == EPOCHS
    file.write(EPOCHS)
    assert file.path.read_bytes() == CONTENT


def test_both_damaged(tmp_path: Path) -> None:
    file = EpochFile(tmp_path / "e")
    file.path.write_bytes(b"x")
    with pytest.raises(StoreCorruptError, match=r"/e: .*empty this store"):
        file.read()
    (tmp_path / "e.bak").write_bytes(b"y")
    with pytest.raises(StoreCorruptError, match=r"/e: .*/e\.bak: "):
        file.read()


@pytest.mark.parametrize(
    "content",
    [b"", b"2", b"2\n0", b"3\n0\n" + LINES, b"1\n0\n" + LINES, b"2\n-1\n" + LINES,
     b"2\n0\n2-0\n1-5\n", b"2\n0\n1-10\n2-5\n", b"1\n0\n1\n", b"1\n0\n1--5\n", b"1\n0\na-5\n",
     b"1\n0\n1-99999999999999999999\n", b"1\n0\n2147483648-0\n", b"9\n0\n" + b"1" * (2 << 20)],
)  # fmt: skip
def test_what_is_no_list_of_epochs_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        decode(content)


@given(content=st.binary(max_size=200), at=st.integers(0, 100))
def test_no_bytes_break_it(content: bytes, at: int) -> None:
    for text in (content, CONTENT[:at] + content):
        try:
            decode(text)
        except ValueError:
            continue


@given(at=st.integers(0, len(CONTENT) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_changes_no_entry(at: int, bit: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[at] ^= 1 << bit
    with contextlib.suppress(ValueError):
        assert decode(bytes(damaged)) == EPOCHS


@given(st.lists(st.tuples(st.integers(1, 2**24), st.integers(0, 2**40)), max_size=40))
def test_what_is_written_is_read(steps: list[tuple[int, int]]) -> None:
    epoch = start = 0
    pairs = []
    for each, distance in steps:
        epoch, start = epoch + each, start + distance
        pairs.append((epoch, start))
    if pairs:
        assert decode(encode(Epochs.of(pairs))) == Epochs.of(pairs)


def test_the_place_is_that_of_rocketmq() -> None:
    settings = load_properties(None, {"storePathRootDir": "/data"})
    assert epoch_path(settings) == Path("/data/epochFileCheckpoint")
    settings.set("storePathEpochFile", "/elsewhere/epochs")
    assert epoch_path(settings) == Path("/elsewhere/epochs")
