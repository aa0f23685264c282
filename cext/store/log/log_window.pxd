"""Log window: a piece of the commit log in memory, for a thread that reads it from end to end.

    window.fill(offset, wanted, limit)      OK: [offset, offset + wanted) can be read ...
    window_at(window, offset)               ... here, until the next fill()

Bytes are read with pread, `read_bytes` at a time: a sector that cannot be read is then an errno and
not a signal that ends the process. For a reader close behind the reactor the copying is most of the
cost, so a window that `borrows` reads the log's tail ring instead, where the bytes still are.
(Mapping the file was measured too: a page costs as much to map and unmap as to copy.)

The reactor does not know about such a reader and may overwrite what is being read. Before the
reactor writes anywhere in the ring it claims the place (LogLink.claimed). So a reader that looks at
the claim after reading the bytes knows whether they were whole. Until it has looked, the bytes may
be anything: every length must be checked against what is there, and nothing computed from them may
be used outside the reader.

    reader   fill .. read .. fill .. read .. is_sound()?  yes: use it   no: seek back, read again
    reactor                    claim, write into the ring

is_sound() answers for everything that was borrowed since its last call. Bytes older than three
quarters of the ring are not borrowed, so a second reading comes from the file.

Example, ring 16 MiB, claimed 100,000,000: offset 90,000,000 is borrowed, and its bytes are whole
until the claim passes 106,777,216; offset 80,000,000 is read from the file.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.store.log.commit_log cimport CommitLog

cdef enum:
    BORROWED_BYTES = 1 << 20        # of one piece

cdef class LogWindow:
    """For one thread."""
    cdef CommitLog log
    cdef const uint8_t* bytes       # of [start, end): borrowed from buffer or ring
    cdef int64_t start, end         # log offsets; equal: nothing is there
    cdef uint8_t* buffer            # owned
    cdef int64_t capacity           # bytes of the buffer
    cdef int64_t read_bytes         # usually read at once
    cdef bint borrows               # fixed: may read the ring
    cdef bint borrowed              # this piece is in the ring
    cdef bint copy_next             # the next piece must be a copy
    cdef bint lost                  # something borrowed was overwritten since is_sound()
    cdef uint64_t pieces_read, pieces_borrowed, pieces_lost     # counters

    # Makes [offset, offset + wanted) readable. `limit`: up to where the log may be read, in this
    # segment. OK | NOT_READY (beyond the limit) | NOT_FOUND (no longer in the log) | IO_ERROR |
    # POOL_EMPTY
    cdef int fill(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil
    # The next offset in [at, stop) where the head of a record may be (its size and magic, eight
    # bytes, end at or before stop). OK | NOT_FOUND (none) | as fill()
    cdef int find_head(self, int64_t at, int64_t stop, int64_t limit, int64_t* found) noexcept nogil
    # Whether everything read since the last call was whole.
    cdef bint is_sound(self) noexcept nogil
    # Makes the next fill() copy, even if the bytes are already here.
    cdef void copy_next_piece(self) noexcept nogil

    cdef int _read(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil
    cdef bint _borrow(self, int64_t offset, int64_t wanted, int64_t limit) noexcept nogil
    cdef void _check_borrowed(self) noexcept nogil

cdef inline bint window_has(LogWindow window, int64_t offset, int64_t bytes) noexcept nogil:
    return window.start <= offset and offset + bytes <= window.end

cdef inline const uint8_t* window_at(LogWindow window, int64_t offset) noexcept nogil:
    return window.bytes + (offset - window.start)
