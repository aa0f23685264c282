"""Goal: a frame that is cut anywhere is found whole, and lengths that cannot be right are refused
early."""

import struct

from support.wire_frames import BINARY, JSON, MALFORMED, NOT_READY, OK, TOO_LARGE, frame

from cext.testing.frame_probe import frame_found

LIMIT = 1000


def test_whole_frame_gives_header_and_body() -> None:
    for serialize_type in (JSON, BINARY):
        data = frame(b"HEADER", b"BODY", serialize_type)
        assert frame_found(data + b"next frame", LIMIT) == {
            "status": OK, "needed": 0, "total_bytes": len(data),
            "serialize_type": serialize_type, "header": b"HEADER", "body": b"BODY",
        }  # fmt: skip


def test_every_shorter_cut_says_how_much_is_needed() -> None:
    data = frame(b"HEADER", b"BODY")
    for cut in range(len(data)):
        answer = frame_found(data[:cut], LIMIT)
        assert answer == {"status": NOT_READY, "needed": 8 if cut < 4 else len(data)}, cut


def test_frame_of_exactly_the_limit_is_taken_and_one_more_byte_refused() -> None:
    data = frame(b"H" * (LIMIT - 8))
    assert frame_found(data, LIMIT)["status"] == OK
    assert frame_found(frame(b"H" * (LIMIT - 7)), LIMIT)["status"] == TOO_LARGE


def test_foreign_beginnings_are_too_large() -> None:
    for beginning in (b"\x16\x03\x01\x02", b"GET ", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"):
        assert frame_found(beginning, 16 * 1024 * 1024)["status"] == TOO_LARGE


def test_length_below_its_own_header_word_is_malformed() -> None:
    for length in range(4):
        assert frame_found(struct.pack(">I", length), LIMIT)["status"] == MALFORMED


def test_header_longer_than_the_frame_is_refused_before_the_rest_has_come() -> None:
    assert frame_found(struct.pack(">II", 20, 17), LIMIT)["status"] == MALFORMED
    assert frame_found(struct.pack(">II", 20, 16), LIMIT)["status"] == NOT_READY


def test_unknown_serialisation_is_malformed() -> None:
    assert frame_found(frame(b"H", b"", 2), LIMIT)["status"] == MALFORMED
