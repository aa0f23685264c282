"""Pop offset: where the pops of a group go on in a queue, and whether they may do so now."""
from libc.stdint cimport int32_t, int64_t

from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped_messages cimport Popped
from cext.flow.tables.topic_table cimport Topic
from cext.store.queues.consume_queue cimport Queue

# Everything below `offset` was given or passed. Notifications and peeks only look: no effect.
cdef void pop_move(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
                   int64_t offset) noexcept nogil
# Where the pop begins: at the group's offset or where that was reset to, or, for a group that never
# consumed the queue, where such groups begin. `retry`: the topic holds what comes again.
cdef int64_t pop_begin(PopService s, PopJob* job, Topic* topic, Queue* queue,
                       bint retry) noexcept nogil
# Whether it is a pop in order, and a consumer still holds the queue's batch before.
cdef bint is_blocked(PopService s, PopJob* job, Popped* p, int32_t queue_id,
                     int64_t offset) noexcept nogil
