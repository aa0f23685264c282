"""Raw append: bytes of another log, at the same offsets; how a replica gets its log.

Nothing is taken before it was checked: each record's magic, lengths, checksum and place; of a BLANK
that it reaches just to its segment's end (both logs have segments of one size). What is taken is
appended like any record: written by write_out(), durable by the flusher.

Whole records are taken. Of a record cut off at the end of the bytes nothing is: it comes again with
its rest. So the next bytes belong at marks.appended, whatever the pieces were; behind a BLANK that
is the next segment's start, and its filler, which means nothing, need not be sent.

Example: appended = 900, segment 1024; 60 bytes at 900 are a record of 50 and the head of a BLANK
with two bytes of filler: OK, appended = 1024.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.store.log.commit_log cimport CommitLog

# OK         marks.appended says how far it came
# NOT_FOUND  `offset` is not the end of this log; nothing was taken
# CORRUPT    at marks.appended; *problem is a RecordProblem. What was before it is taken
# TOO_LARGE  a record of more bytes than this log takes (max_record_bytes)
# CLOSED, or what CommitLog.reserve() says: the rest is to come again
cdef int raw_append(CommitLog log, int64_t offset, const uint8_t* bytes, uint64_t count,
                    int32_t* problem) noexcept nogil
