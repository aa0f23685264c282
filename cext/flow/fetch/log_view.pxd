"""Log view: a stored record that a request names by its log offset, parsed where it lies.

Used by what makes a new message of an old one: a committed half message, one that a consumer sent
back. The view is valid until the end of the turn, appends included.

A record that is not in memory is ABSENT: the handler returns NEEDS_RECORD, and the request comes
again with the record (parked_requests.pxd). So the second try finds it whatever the page cache
holds by then.
"""
from libc.stdint cimport int64_t

from cext.flow.fetch.parked_requests cimport ParkedRequests
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.record cimport RecordView

# The checked record at this log offset. OK, ABSENT (not in memory), NOT_READY (cannot be had now)
# or CORRUPT (none starts here).
cdef int view_record(CommitLog log, ParkedRequests* parked, int64_t offset,
                     RecordView* view) noexcept nogil
