# Log reader: a range of a commit log read from its file, without a broker: [start, end) of physical
# offsets within one segment. Records that begin in the range belong to it.
#
#     at the position                      what is done
#     a record, checked                    a row, if its topic, queue, offset and time are wanted
#     BLANK                                the segment's end
#     a record whose body is damaged       damage of its topic; what follows it is judged by itself
#     a record that ends in zeros, and     the same as what follows here: no checksum covers topic
#     zeros behind it                      and properties, and a lost page took their end
#     zeros, or anything else              damage: told once, then on to the next valid record, or
#                                          to the segment's end: who knows the log to end before
#                                          that says so by the segment's length
#     the start of a range that was cut    no damage: the record before it reaches into the range
#     the end of a range that was cut      damage there is told by this range: the next one begins
#                                          with its first valid record, and cannot know of it
#
# "Valid" includes that the record says it stands at this very offset, so what an older use of the
# file left behind is never taken for a record. Half messages and rolled-back ones are no rows.
#
# Example: records at 0, 300, 700; range [200, 600) -> looks for a record from 200 on, row of 300.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.arrow.decoder cimport Decoder
from cext.memory.name_map cimport NameMap
from cext.store.log.record cimport RecordView

cdef struct QueueRange:
    int32_t queue_id            # -1: every queue
    int64_t first, end          # queue offsets

cdef struct TopicRule:
    int32_t count               # 0: nothing of this topic is wanted
    QueueRange* ranges          # owned; the first that fits counts
    TopicRule* following        # in the list of all

cdef class LogReader:
    cdef readonly Decoder decoder
    cdef object decide          # (topic) -> list of (queue id or -1, first, end)
    cdef int fd                 # borrowed
    cdef int64_t segment_start, segment_end     # physical offsets; the file's length counts
    # Of the next record. Less than `end` when all is done: no record of the range was found.
    cdef readonly int64_t position
    cdef int64_t end
    cdef int64_t from_ms, until_ms              # store times [from, until)
    cdef uint8_t* buffer        # owned; holds [window_start, window_end)
    cdef int64_t capacity, window_start, window_end
    cdef NameMap topics         # name -> TopicRule*, as decided so far
    cdef TopicRule* rules       # owned list
    cdef readonly int error     # errno of the last IO_ERROR
    cdef bint started           # the first record of the range is found
    cdef bint ended             # what lies at the end of the range is known, too

    # The record at an offset. OK | NOT_READY (zeros, or the file's end) | NOT_FOUND (BLANK) |
    # CORRUPT | IO_ERROR | POOL_EMPTY.
    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil
    # The first valid record in [offset, limit): its offset, -1: none, or a status below -1.
    cdef int64_t find_record(self, int64_t offset, int64_t limit) noexcept nogil
    # Rows until the columns are full (NOT_READY) or the range is done (OK); CORRUPT | IO_ERROR |
    # POOL_EMPTY.
    cdef int read_range(self) noexcept nogil

    cdef int _hold(self, int64_t offset, int64_t wanted) noexcept nogil
    cdef int _raise_trouble(self, int status, int64_t at) except -1
    cdef int _check_behind(self, RecordView* view) noexcept nogil
    cdef int _take(self, RecordView* view) noexcept nogil
    cdef int _take_damage(self, const RecordView* view) noexcept nogil
    cdef bint _wants(self, const RecordView* view, int* status) noexcept nogil
    cdef TopicRule* _rule(self, const RecordView* view) noexcept nogil
    cdef TopicRule* _decide(self, const RecordView* view) noexcept with gil
