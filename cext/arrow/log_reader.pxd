# Log reader: reads a range of a commit log from its file, without a broker: physical offsets
# [start, end) within one segment. A record belongs to the range that it begins in.
#
#     at the position                      what is done
#     a record, checked                    a row, if its topic, queue, offset and time are wanted
#     BLANK                                the segment's end
#     a record whose body is damaged       damage of its topic; what follows it is judged by itself
#     a record that ends in zeros, and     damage as in the next row: no checksum covers topic and
#     zeros behind it                      properties, and a lost page took the end of these
#     zeros, or anything else              damage: reported once; then on to the next valid record,
#                                          or to the segment's end. A caller that knows that the log
#                                          ends earlier says so by the segment's length
#     the start of a range that was cut    no damage: the record before it reaches into the range
#     the end of a range that was cut      damage there is reported by this range: the next one
#                                          begins with its first valid record and cannot know of it
#
# "Valid" includes that the record names this very offset as its own, so bytes from an older use of
# the file are never taken for a record. Half messages and rolled-back ones are no rows.
#
# Example: records at 0, 300, 700; range [200, 600): looks for a record from 200 on; a row for 300.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.arrow.decoder cimport Decoder
from cext.memory.name_map cimport NameMap
from cext.store.log.record cimport RecordView

cdef struct QueueRange:
    int32_t queue_id            # -1: every queue
    int64_t first, end          # queue offsets

cdef struct TopicRule:
    int32_t count               # 0: nothing of this topic is wanted
    QueueRange* ranges          # owned; the first range of a queue counts
    TopicRule* following        # next in the list of all rules

cdef class LogReader:
    cdef readonly Decoder decoder
    cdef object decide          # (topic) -> list of (queue id or -1, first, end)
    cdef int fd                 # borrowed
    cdef int64_t segment_start, segment_end     # physical offsets; the file's length counts
    # Of the next record. When all is done, less than `end`: no record of the range was found.
    cdef readonly int64_t position
    cdef int64_t end
    cdef int64_t from_ms, until_ms              # store times [from, until)
    cdef uint8_t* buffer        # owned; holds [window_start, window_end)
    cdef int64_t capacity, window_start, window_end
    cdef NameMap topics         # name -> TopicRule*, for topics met so far
    cdef TopicRule* rules       # owned list
    cdef readonly int error     # errno of the last IO_ERROR
    cdef bint started           # the range's first record has been found
    cdef bint ended             # what lies at the range's end has been looked at

    # Reads the record at an offset. OK | NOT_READY (zeros, or the file's end) | NOT_FOUND (BLANK) |
    # CORRUPT | IO_ERROR | POOL_EMPTY.
    cdef int peek(self, int64_t offset, RecordView* out) noexcept nogil
    # Offset of the first valid record in [offset, limit); -1: none; below -1: a status.
    cdef int64_t find_record(self, int64_t offset, int64_t limit) noexcept nogil
    # Adds rows until the columns are full (NOT_READY) or the range is done (OK). CORRUPT |
    # IO_ERROR | POOL_EMPTY.
    cdef int read_range(self) noexcept nogil

    cdef int _hold(self, int64_t offset, int64_t wanted) noexcept nogil
    cdef int _raise_trouble(self, int status, int64_t at) except -1
    cdef int _check_behind(self, RecordView* view) noexcept nogil
    cdef int _take(self, RecordView* view) noexcept nogil
    cdef int _take_damage(self, const RecordView* view) noexcept nogil
    cdef bint _wants(self, const RecordView* view, int* status) noexcept nogil
    cdef TopicRule* _rule(self, const RecordView* view) noexcept nogil
    cdef TopicRule* _decide(self, const RecordView* view) noexcept with gil
