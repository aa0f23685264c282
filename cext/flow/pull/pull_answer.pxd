"""Pull answer: the reply to a pull, its records where they lie, and the end of its job.

    found       reply header + the records as iovecs, in the ring or the page cache
    fetched     reply header + what a disk fetch has filled
    nothing     held until a message comes (long polling), or 19, 20, 21 (docs/protocol.md, Pulling)
    too large   refused with the place, where a record is larger than may be read at once
    damage      held while the queue is mended from the log, then refused with the place; busy as
                long as it could not be mended and may not be damaged at all

Whatever is answered, the job is freed; what is held is not. A connection that has no room for the
answer is closed.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.flow.pull.queue_entry_scan cimport Found
from cext.store.queues.consume_queue cimport Queue, QueueEntry

# An error. False: no buffer is left, the connection has to be closed.
cdef bint refuse_job(PullService s, PullJob* job, int32_t code, const char* remark) noexcept nogil
cdef void refuse_busy(PullService s, PullJob* job, const char* remark) noexcept nogil
# No message: where the client is to go on.
cdef void answer_nothing(PullService s, PullJob* job, int32_t code, const char* remark,
                         int64_t next_offset) noexcept nogil
# An operator has reset the group's offset to job.offset. False as refuse_job().
cdef bint answer_reset(PullService s, PullJob* job) noexcept nogil
# The item of a logical queue is at its end: the client is to go on in the one that follows it.
cdef void answer_following(PullService s, PullJob* job) noexcept nogil
# The queue has no message beyond job.offset: holds the pull, or says so.
cdef void nothing_new(PullService s, PullJob* job, Queue* queue) noexcept nogil
cdef void answer_found(PullService s, PullJob* job, Found* found) noexcept nogil
# The first `bytes` that job.fetch has brought, which are whole records.
cdef void answer_fetched(PullService s, PullJob* job, uint64_t bytes) noexcept nogil
# found.corrupt_offset, and corrupt_physical unless it is the entry that is damaged.
cdef void answer_damage(PullService s, PullJob* job, Found* found) noexcept nogil
# The record at job.offset, whose queue entry this is, is larger than may be read at once.
cdef void answer_too_large(PullService s, PullJob* job, const QueueEntry* entry) noexcept nogil
# The queue's entries at job.offset cannot be read or are no entries.
cdef void answer_unreadable(PullService s, PullJob* job) noexcept nogil
