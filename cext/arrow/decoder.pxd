# Decoder: turns stored records into rows: checks, unpacks, unfolds batches, filters by tag.
#
#     record_parse (lengths, checksum) -> range -> tag -> body unpacked -> batch unfolded -> row
#
# `mode` says what is done about a bad record: FAIL_FAST stops with CORRUPT and sets `problem`;
# PERMISSIVE adds a row that has only topic, broker, queue, offset and the reason (Field.CORRUPT);
# DROP counts the record and goes on. When a record's length cannot be believed, the rest of the
# same piece is lost with it.
#
# Bodies are unpacked by a Python function, which is called with the GIL, once for each packed body:
# zlib, LZ4 and zstd are not compiled in, because most messages are plain.
#
# Example: a reply of 32 records, columns full after 20: decode says NOT_READY, and `used` is where
# the 21st begins.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.arrow.columns cimport Columns, Row
from cext.arrow.pairs cimport Pair
from cext.store.log.record cimport RecordView

cpdef enum DamageMode:
    FAIL_FAST = 0
    PERMISSIVE = 1
    DROP = 2

cdef struct Tag:
    const char* bytes           # borrowed from Decoder.tags
    uint32_t length

cdef class Decoder:
    cdef readonly Columns columns
    cdef object unpack          # (sys_flag, bytes, limit) -> bytes; ValueError when it cannot
    cdef list tags              # bytes objects; keeps `wanted` alive
    cdef Tag* wanted            # owned; a message must have one of them
    cdef uint32_t wanted_count  # 0: every tag passes
    cdef Pair* pairs            # owned; PAIRS_MAX of them
    cdef int mode
    cdef bint check_crc
    cdef int64_t unpacked_max   # bytes of one unpacked body
    cdef readonly int64_t damaged       # bad records met, ever
    cdef readonly int64_t filtered      # records without a wanted tag, ever
    cdef readonly object problem        # about the record that stopped FAIL_FAST
    cdef int64_t following              # the offset behind the last record added
    cdef object unpacked        # keeps the bytes of a row alive until it is copied
    cdef object raised          # exception of a Python function, no damage; or None

    # Adds rows with a queue offset in [first, end) to the columns; *next becomes the offset behind
    # the last record seen. OK: all used | NOT_READY: columns full | CLOSED: reached `end` | CORRUPT
    # | POOL_EMPTY: call raise_failure. first < 0: rows of any offset, in any order.
    cdef int decode(self, const uint8_t* at, uint64_t available, int64_t first, int64_t end,
                    int64_t* next, uint64_t* used) noexcept nogil
    # Adds one parsed record, or all messages of a batch; `following` becomes the offset behind
    # them.
    # OK | CORRUPT | POOL_EMPTY.
    cdef int add_record(self, RecordView* view, int64_t first, int64_t end) noexcept nogil
    # After POOL_EMPTY: raises the exception of the Python function, or MemoryError.
    cdef int raise_failure(self) except -1
    # Treats a bad record as `mode` says: OK to go on, CORRUPT to stop, POOL_EMPTY.
    cdef int add_damage(self, int64_t queue_offset, const char* reason) noexcept nogil

    cdef bint _passes(self, const Pair* tag) noexcept nogil
    cdef int _unfold(self, const RecordView* outer, Row* row, int64_t first,
                     int64_t end) noexcept nogil
    cdef int _unpack(self, const RecordView* view, Row* row) noexcept nogil
    cdef int _unpack_with_lock(self, const RecordView* view, Row* row) noexcept with gil
    cdef int _stop(self, int64_t queue_offset, const char* reason) noexcept with gil
