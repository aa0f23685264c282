"""Pop offset: where the pops of a group go on in a queue, and whether they may now."""
from libc.stdint cimport int32_t, int64_t

from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped cimport Popped
from cext.flow.tables.topic_table cimport Topic
from cext.store.queues.consume_queue cimport Queue

# What is below it has been given, or is passed. Looks alone (notifications, peeks) move nothing.
cdef void pop_move(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
                   int64_t offset) noexcept nogil
# Where it goes on: at its offset or where it was reset to, or where a group begins that never
# consumed the queue. `retry`: the topic holds what comes again.
cdef int64_t pop_begin(PopService s, PopJob* job, Topic* topic, Queue* queue,
                       bint retry) noexcept nogil
# In order, and the batch before is in somebody's hands.
cdef bint is_blocked(PopService s, PopJob* job, Popped* p, int32_t queue_id,
                     int64_t offset) noexcept nogil
