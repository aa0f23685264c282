"""Goal: a reader behind the reactor sees whole records, or knows that they were not whole.

Method: a log with a 64 KiB ring, read by a LogWindow between appends that overwrite the ring. Not
shown: the order of two processors' loads and stores, for which the fence is there (log_window.pxd).
"""

import pytest
from support.logs import SEGMENT_BYTES, append, append_rolling, fill, open_log

from cext.base.status import Status
from cext.store.log.log_window import LogWindow
from cext.store.log.preparer import Preparer
from cext.testing.store_probe import (
    log_new_turn,
    log_watermarks,
    log_write_out,
    preparer_step,
    window_copy_next_piece,
    window_fill,
    window_is_sound,
    window_pieces,
)

RING = 1 << 16
SIZE = 1000


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "commitlog", ring_bytes=RING) as log:
        yield log


def append_many(log, count):
    """Appends records, past the end of a segment if needed; returns [(offset, data)]."""
    preparer = Preparer(log)
    written = []
    while len(written) < count:
        log_new_turn(log)
        offset, data = append_rolling(log, SIZE)
        if offset < 0:
            preparer_step(preparer)
            continue
        written.append((offset, data))
        assert log_write_out(log) == 0
    return written


def read(window, log, offset):
    end = min(log_watermarks(log)["written"], offset - offset % SEGMENT_BYTES + SEGMENT_BYTES)
    return window_fill(window, offset, SIZE, end)


def test_the_newest_bytes_are_borrowed_and_known_to_be_whole(log):
    window = LogWindow(log, 4096, borrows=True)
    records = append_many(log, 10)
    assert [read(window, log, offset) for offset, _ in records] == [data for _, data in records]
    assert window_is_sound(window)
    assert window_pieces(window) == (0, 1, 0)


def test_bytes_that_the_reactor_passed_are_known_and_read_again_from_the_file(log):
    window = LogWindow(log, 4096, borrows=True)
    [(offset, data)] = append_many(log, 1)
    assert read(window, log, offset) == data
    append_many(log, 75)  # another record now has the place of the first one in the ring
    assert not window_is_sound(window)
    assert read(window, log, offset) == data
    assert window_is_sound(window)
    assert window_pieces(window) == (1, 1, 1)


def test_a_piece_that_was_overwritten_is_remembered_when_the_next_one_is_read(log):
    window = LogWindow(log, 4096, borrows=True)
    [(first, _)] = append_many(log, 1)
    read(window, log, first)
    later = append_many(log, 80)
    offset, data = later[-1]
    # It is in another piece of the ring, which is sound by itself.
    assert read(window, log, offset) == data
    assert not window_is_sound(window)
    assert window_is_sound(window)


def test_bytes_that_will_soon_be_passed_are_not_borrowed(log):
    window = LogWindow(log, 4096, borrows=True)
    records = append_many(log, 60)
    for offset, data in records:
        assert read(window, log, offset) == data
        assert window_is_sound(window)
    pieces_read, borrowed, lost = window_pieces(window)
    assert pieces_read > 0
    assert borrowed > 0
    assert lost == 0


def test_a_claim_is_made_before_every_byte_that_overwrites_another(log):
    """Whatever part the reader holds when a record is written: changed bytes are never called
    sound."""
    changed = 0
    for ahead in range(0, RING // SIZE + 12):
        window = LogWindow(log, 4096, borrows=True)
        [(offset, data)] = append_many(log, 1)
        assert read(window, log, offset) == data
        append_many(log, ahead)
        # The window still has this piece, so the ring is read again.
        now = window_fill(window, offset, SIZE, offset + SIZE)
        assert now == data or not window_is_sound(window)
        changed += now != data
    assert changed > 0  # else nothing was overwritten, and the test has shown nothing


def test_what_was_in_the_log_before_the_start_is_not_in_the_ring(tmp_path):
    with open_log(tmp_path / "commitlog", ring_bytes=RING) as log:
        records = fill(log, 1, SIZE)
        end = log_watermarks(log)["written"]
    with open_log(tmp_path / "commitlog", end, ring_bytes=RING) as log:
        window = LogWindow(log, 4096, borrows=True)
        for offset, data in records:
            assert read(window, log, offset) == data
        assert window_pieces(window)[1] == 0
        offset = append(log, SIZE)
        log_write_out(log)
        assert len(read(window, log, offset)) == SIZE
        assert window_pieces(window)[1] == 1


def test_a_window_that_may_not_borrow_and_one_that_was_asked_not_to_make_copies(log):
    records = append_many(log, 3)
    plain, asked = LogWindow(log, 4096), LogWindow(log, 4096, borrows=True)
    offset, data = records[0]
    assert read(plain, log, offset) == data
    assert window_pieces(plain) == (1, 0, 0)
    assert read(asked, log, offset) == data
    window_copy_next_piece(asked)
    assert read(asked, log, offset) == data
    assert window_pieces(asked) == (1, 1, 0)


def test_nothing_beyond_the_limit_is_given_out(log):
    [(offset, _)] = append_many(log, 1)
    for borrows in (False, True):
        window = LogWindow(log, 4096, borrows=borrows)
        assert window_fill(window, offset, SIZE + 1, offset + SIZE) == Status.NOT_READY
