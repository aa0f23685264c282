"""Log view: a stored record that a request names by its log offset, parsed where it lies.

Used where an old message becomes a new one: a committed half message, a message that a consumer
sent back. The view is valid until the end of the turn, even after appends.

When a record is not in memory, the status is ABSENT: the handler returns NEEDS_RECORD, and the
request comes again together with the record (parked_requests.pxd). So the second try finds it,
whatever the page cache holds then.
"""
from libc.stdint cimport int64_t

from cext.flow.fetch.parked_requests cimport ParkedRequests
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.record cimport RecordView

# The checked record at this log offset. OK, ABSENT (not in memory), NOT_READY (cannot be had now)
# or CORRUPT (none starts here).
cdef int view_record(CommitLog log, ParkedRequests* parked, int64_t offset,
                     RecordView* view) noexcept nogil
