"""Revive log: the topic that check points and acks go into, as timed messages (revive_entry.pxd).

    check point   due a second before its messages are visible again, so that it comes first
    ack           due when the messages are visible again; at once when that time is over

So what waits takes no memory, survives a kill, and is where Apache RocketMQ looks for it. A pop's
check point has the property POP_NEXT, which Apache's do not have: the offset where the group goes
on.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.step cimport Step
from cext.flow.pop.pop_service cimport PopService
from cext.flow.tables.topic_table cimport Topic
from cext.store.log.record cimport RecordView
from cext.wire.revive_entry cimport ReviveEntry

cdef enum:
    CHECK_POINT_LEAD_MS = 1000
    # Room in the log for one check point or ack: its body, names and properties (turn_room.pxd).
    REVIVE_RECORD_BYTES = 8192

# rmq_sys_REVIVE_LOG_<cluster>, or NULL.
cdef Topic* revive_topic(PopService s) noexcept nogil
# The revive queue to be used next, or -1 when there is none.
cdef int32_t next_revive_queue(PopService s) noexcept nogil
# Returns what append_redirected() says, or NOT_FOUND: no such queue.
# `next_offset`: where the group goes on in its queue (pop_journal.pyx), -1 when this is not a
# pop's.
cdef int append_check_point(PopService s, const ReviveEntry* e, int32_t revive_queue,
                            int64_t next_offset) noexcept nogil
# Appends an ack, of several messages when e.listed > 0; `due_ms`: when they would be visible again.
cdef int append_ack(PopService s, const ReviveEntry* e, int32_t revive_queue,
                    int64_t due_ms) noexcept nogil
# Appends an ack of messages that are now in the retry topic, with the property POP_REVIVED: when
# the log is read again after a kill, their check point does not bring them a second time.
cdef int append_revived(PopService s, const ReviveEntry* e, int32_t revive_queue) noexcept nogil
cdef bint is_of_revived(const RecordView* view) noexcept nogil
# Writes the turn's check points, and records of revived messages, to the file before replies leave.
cdef Step check_points_step(PopService s) noexcept
