"""Pull answer: the reply to a pull, with its records where they lie, and the end of its job.

    found       reply header + the records as iovecs, in the ring or the page cache
    fetched     reply header + what a disk fetch has brought
    nothing     held until a message comes (long polling), or 19, 20, 21 (docs/protocol.md, Pulling)
    too large   refused, with the place, when a record is larger than may be read at once
    damage      held while the queue is repaired from the log, then refused, with the place; as long
                as the repair failed for now and there may be no damage at all, the answer is busy

Every answer frees the job; holding it does not. When a connection has no room for the answer, it is
closed.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.flow.pull.queue_entry_scan cimport Found
from cext.store.queues.consume_queue cimport Queue, QueueEntry

# Answers with an error. False: no buffer is left; the connection must be closed.
cdef bint refuse_job(PullService s, PullJob* job, int32_t code, const char* remark) noexcept nogil
cdef void refuse_busy(PullService s, PullJob* job, const char* remark) noexcept nogil
# Answers without a message; says where the client must go on.
cdef void answer_nothing(PullService s, PullJob* job, int32_t code, const char* remark,
                         int64_t next_offset) noexcept nogil
# An operator has reset the group's offset to job.offset: tells the client. False as refuse_job().
cdef bint answer_reset(PullService s, PullJob* job) noexcept nogil
# The end of one item of a logical queue: tells the client to go on in the item that follows.
cdef void answer_following(PullService s, PullJob* job) noexcept nogil
# The queue has no message from job.offset on: holds the pull, or answers so.
cdef void nothing_new(PullService s, PullJob* job, Queue* queue) noexcept nogil
cdef void answer_found(PullService s, PullJob* job, Found* found) noexcept nogil
# Sends the first `bytes` that job.fetch has brought, which are whole records.
cdef void answer_fetched(PullService s, PullJob* job, uint64_t bytes) noexcept nogil
# Damage at found.corrupt_offset; its record lies at corrupt_physical, unless the entry is damaged.
cdef void answer_damage(PullService s, PullJob* job, Found* found) noexcept nogil
# The record at job.offset, which this queue entry names, is larger than may be read at once.
cdef void answer_too_large(PullService s, PullJob* job, const QueueEntry* entry) noexcept nogil
# The queue's entries at job.offset cannot be read or are no entries.
cdef void answer_unreadable(PullService s, PullJob* job) noexcept nogil
