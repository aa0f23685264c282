"""Pop offset. See pop_offset.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.base.status cimport OK
from cext.flow.pop.pop_job cimport POP
from cext.flow.pop.pop_order cimport order_blocks, order_clear, order_find
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.popped_messages cimport look_again
from cext.flow.tables.offset_table cimport offset_commit, offset_query, offset_take_reset
from cext.store.queues.consume_queue cimport QueueEntry

cdef enum:
    INIT_MIN = 0


cdef void pop_move(PopService s, PopJob* job, Topic* topic, int32_t queue_id,
                   int64_t offset) noexcept nogil:
    if job.kind == POP:
        offset_commit(&s.tables.offsets, topic.name, topic.name_length, job.pair.group,
                      job.pair.group_length, queue_id, offset)


cdef int64_t first_offset(PopService s, PopJob* job, Queue* queue, bint retry) noexcept nogil:
    """Where a group that never consumed the queue begins."""
    cdef QueueEntry entry
    cdef const uint8_t* at
    if retry or job.init_mode == INIT_MIN or queue.max_offset == 0:
        return queue.min_offset
    if (queue.min_offset == 0 and s.append.queues.read(queue, 0, 1, &entry) == 1 and entry.size > 0
            and s.append.log.view(entry.physical_offset, entry.size, &at) == OK):
        return 0                            # a young queue: all of it is new to the group
    return queue.max_offset - 1


cdef int64_t pop_begin(PopService s, PopJob* job, Topic* topic, Queue* queue,
                       bint retry) noexcept nogil:
    cdef PopPair* pair = job.pair
    cdef int64_t offset, known = -1
    cdef bint reset = False
    if s.tables.offsets.reset_count > 0 and job.kind == POP:
        known = offset_take_reset(&s.tables.offsets, topic.name, topic.name_length, pair.group,
                                  pair.group_length, queue.queue_id)
        reset = known >= 0
    if not reset:
        known = offset_query(&s.tables.offsets, topic.name, topic.name_length, pair.group,
                             pair.group_length, queue.queue_id)
    elif not retry:
        order_clear(pair, queue.queue_id)
        s.pops.order_version += 1
    offset = known if known >= 0 else first_offset(s, job, queue, retry)
    if offset < queue.min_offset:
        offset = queue.min_offset
    elif offset > queue.max_offset:
        offset = queue.max_offset
    if offset != known:
        pop_move(s, job, topic, queue.queue_id, offset)
    return offset


cdef bint is_blocked(PopService s, PopJob* job, Popped* p, int32_t queue_id,
                     int64_t offset) noexcept nogil:
    cdef int64_t until = 0
    if not job.order or not order_blocks(
            order_find(job.pair, queue_id), offset, job.attempt, job.attempt_bytes,
            s.turn.wall_ms, &until):
        return False
    look_again(p, until)
    return True
