"""Raw append: appends bytes of another log at the same offsets; a replica gets its log this way.

Everything is checked before it is taken: each record's magic, lengths, checksum and place, and that
a BLANK ends exactly at its segment's end (both logs must have segments of the same size). Records
that are taken are appended like any other: written by write_out(), made durable by the flusher.

Only whole records are taken. A record that is cut off at the end of the bytes is not, and must be
sent again as a whole. So the next bytes always belong at marks.appended, however the log was cut
into pieces. After a BLANK that is the next segment's start: the BLANK's filler has no meaning and
need not be sent.

Example: appended = 900, segment 1024; 60 bytes at 900 are a record of 50 and the head of a BLANK
with two bytes of filler: OK, appended = 1024.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.store.log.commit_log cimport CommitLog

# OK         marks.appended says how much was taken
# NOT_FOUND  `offset` is not the end of this log; nothing was taken
# CORRUPT    at marks.appended; *problem is a RecordProblem. The records before it were taken
# TOO_LARGE  a record has more bytes than this log takes (max_record_bytes)
# CLOSED, or a status of CommitLog.reserve(): the rest must be sent again
cdef int raw_append(CommitLog log, int64_t offset, const uint8_t* bytes, uint64_t count,
                    int32_t* problem) noexcept nogil
