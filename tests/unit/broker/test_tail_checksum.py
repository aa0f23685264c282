"""The end of a slave's log, as its master compares it: real files, of two segments.

With brokers: test_replicas.py.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from rmq.broker.replication.tail_checksum import TAIL_BYTES, tail_fault, tail_of
from rmq.config import Settings, load_properties
from rmq.format.message import MAGIC_BLANK

SEGMENT = 1 << 20
BYTES = random.Random(1).randbytes(2 * SEGMENT)


def log(folder: Path, content: bytes = BYTES) -> Settings:
    (folder / "commitlog").mkdir(parents=True)
    for at in range(0, len(content), SEGMENT):
        (folder / "commitlog" / f"{at:020d}").write_bytes(content[at : at + SEGMENT])
    texts = {"storePathRootDir": str(folder), "mappedFileSizeCommitLog": str(SEGMENT),
             "maxMessageSize": "65536"}  # fmt: skip
    return load_properties(None, texts)


@pytest.mark.parametrize("end", [1, 5000, SEGMENT, SEGMENT + 1, SEGMENT + 9000])
def test_the_same_bytes_fit_and_others_do_not(tmp_path: Path, end: int) -> None:
    slave, master = log(tmp_path / "s"), log(tmp_path / "m")
    text = tail_of(slave, (0, end))
    assert int(text.split(" ")[0]) >= max(0, end - TAIL_BYTES)
    assert tail_fault(master, (0, 2 * SEGMENT), text) == ""
    other = bytearray(BYTES)
    other[end - 1] ^= 1
    assert "has other bytes" in tail_fault(log(tmp_path / "o", bytes(other)), (0, end), text)
    assert "beyond the master's end" in tail_fault(master, (0, end - 1), text)


def blank(left: int) -> bytes:
    return struct.pack(">iI", left, MAGIC_BLANK)


@pytest.mark.parametrize("at", [SEGMENT - 8, SEGMENT - 100, SEGMENT - 60_000])
def test_what_fills_a_segment_is_not_compared(tmp_path: Path, at: int) -> None:
    """The filler behind a BLANK's head must not be compared, because it is what each file had
    there: zeros, or records of a reused segment, with that segment's own BLANK."""
    data = bytearray(BYTES[:at])
    data[-500:-492] = blank(7)  # the bytes of a BLANK within a body
    stale = bytearray(BYTES[: SEGMENT - 50] + blank(50) + BYTES[SEGMENT - 42 : SEGMENT])
    fillers = bytes(SEGMENT - at - 8), bytes(stale[at + 8 :])
    new, used = (
        log(tmp_path / name, bytes(data) + blank(SEGMENT - at) + filler + BYTES[SEGMENT:])
        for name, filler in zip("nu", fillers, strict=True)
    )
    for slave, master in ((new, used), (used, new)):
        text = tail_of(slave, (0, SEGMENT))
        assert text.split(" ")[1] == str(at + 8)
        assert tail_fault(master, (0, SEGMENT), text) == ""
        assert tail_fault(master, (0, 2 * SEGMENT), text) == ""
        assert "beyond the master's end" in tail_fault(master, (0, at), text)
    data[-1] ^= 1
    other = log(tmp_path / "o", bytes(data) + blank(SEGMENT - at) + fillers[0] + BYTES[SEGMENT:])
    assert "has other bytes" in tail_fault(other, (0, SEGMENT), text)


def test_what_left_the_masters_log_is_compared_by_nobody(tmp_path: Path) -> None:
    slave, master = log(tmp_path / "s"), log(tmp_path / "m", bytes(2 * SEGMENT))
    text = tail_of(slave, (0, 9000))
    assert tail_fault(master, (SEGMENT, 2 * SEGMENT), text) == ""
    assert "has other bytes" in tail_fault(master, (0, 2 * SEGMENT), text)


def test_an_empty_log_has_no_end(tmp_path: Path) -> None:
    assert tail_of(log(tmp_path), (SEGMENT, SEGMENT)) == ""


@pytest.mark.parametrize(
    "text",
    ["1 2", "1 2 3 4", "-1 2 3", "x 2 3", "2 2 3", "3 2 3", f"0 {TAIL_BYTES + 1} 3",
     f"{SEGMENT - 1} {SEGMENT + 1} 3", "1" * 20 + " 2 3"],
)  # fmt: skip
def test_what_is_no_end_is_refused_unread(tmp_path: Path, text: str) -> None:
    fault = tail_fault(load_properties(None, {
        "storePathRootDir": str(tmp_path / "nowhere"), "mappedFileSizeCommitLog": str(SEGMENT),
        "maxMessageSize": "65536",
    }), (0, 2 * SEGMENT), text)  # fmt: skip
    assert "is no end of a log" in fault
