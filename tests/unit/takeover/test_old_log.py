"""Old log: messages that only the old master's files have are found; what is made anew anyway is
not."""

from pathlib import Path

import pytest
from support.stored_records import record

from rmq.names import OP_HALF_TOPIC
from rmq.takeover.old_log import left_over

SEGMENT_BYTES = 1024
BLANK = 0xCBD43194


def written(directory: Path, *files: bytes) -> Path:
    directory.mkdir()
    for number, content in enumerate(files):
        name = f"{number * SEGMENT_BYTES:020d}"
        (directory / name).write_bytes(content.ljust(SEGMENT_BYTES, b"\0"))
    return directory


def settings(directory: Path) -> dict[str, str]:
    return {
        "storePathCommitLog": str(directory), "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    }  # fmt: skip


def bodies(old: Path, end: int, copy: Path) -> list[bytes]:
    return [message.body for message in left_over(settings(old), end, copy)]


FIRST = record(0, b"first")
SECOND = record(len(FIRST), b"second")


def test_a_message_beyond_the_copy_is_found(tmp_path):
    old = written(tmp_path / "old", FIRST + SECOND)
    copy = written(tmp_path / "copy", FIRST)
    assert bodies(old, len(FIRST), copy) == [b"second"]
    # The copy is of another log, because it ends differently.
    assert bodies(old, len(FIRST + SECOND), copy) == []


def test_a_whole_copy_lacks_nothing(tmp_path):
    old, copy = (written(tmp_path / name, FIRST + SECOND) for name in ("old", "copy"))
    assert bodies(old, len(FIRST + SECOND), copy) == []


@pytest.mark.parametrize(
    ("topic", "properties"),
    [(b"bench", b"REAL_TOPIC\x01bench\x02DELAY\x013\x02"), (OP_HALF_TOPIC.encode(), b"")],
)
def test_what_is_made_again_does_not_count(tmp_path, topic, properties):
    made = record(len(FIRST), b"made", topic, properties)
    last = record(len(FIRST + made), b"last")
    old = written(tmp_path / "old", FIRST + made + last)
    copy = written(tmp_path / "copy", FIRST)
    assert bodies(old, len(FIRST), copy) == [b"last"]


def test_the_next_files_are_read_too(tmp_path):
    rest = SEGMENT_BYTES - len(FIRST)
    blank = rest.to_bytes(4, "big") + BLANK.to_bytes(4, "big")
    third = record(SEGMENT_BYTES, b"third")
    old = written(tmp_path / "old", FIRST + blank, third)
    copy = written(tmp_path / "copy", FIRST)
    assert bodies(old, len(FIRST), copy) == [b"third"]
    # The copy ends where the file does: the old log's next file is all beyond it.
    whole = written(tmp_path / "whole", FIRST + blank, b"")
    assert bodies(old, SEGMENT_BYTES, whole) == [b"third"]


def test_files_of_another_log_say_nothing(tmp_path):
    old = written(tmp_path / "old", record(0, b"other") + SECOND)
    copy = written(tmp_path / "copy", FIRST)
    assert bodies(old, len(FIRST), copy) == []
    assert bodies(tmp_path / "away", len(FIRST), copy) == []
    assert left_over({}, 0, copy) == []
    assert bodies(copy, len(FIRST), copy) == []


def test_a_torn_record_ends_the_log(tmp_path):
    old = written(tmp_path / "old", FIRST + SECOND[:90])
    copy = written(tmp_path / "copy", FIRST)
    assert bodies(old, len(FIRST), copy) == []
