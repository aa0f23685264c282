"""A file of the log into columns: what damage does to its neighbours, in files made for it."""

import struct
from pathlib import Path

import pytest
from support.stored_records import record

pytest.importorskip("pyarrow", reason="needs the extra: pip install -e .[spark]")

from cext.arrow.columns import Columns, Field
from cext.arrow.decoder import DamageMode, Decoder
from cext.arrow.log_reader import LogReader

PHYSICAL_OFFSET_AT = 28
BODY_AT = 88


def log_file(directory: Path, *bodies: bytes, damaged: int) -> Path:
    """Records one behind the other; a bit of the body of number `damaged` is flipped."""
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
