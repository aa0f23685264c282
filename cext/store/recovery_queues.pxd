"""Recovery queues: each queue's files are cut at the start, compared, removed or filled up.

Rows Q of recovery.pxd.
"""
from libc.stdint cimport int64_t

from cext.store.queues.consume_queue cimport Queue
from cext.store.recovery_state cimport RecoveryState

# Before the dispatch: cuts every queue at the start and gives it its range.
cdef object prepare_queues(RecoveryState r)
# While dispatching: the queue now ends at `offset`: entries from there on go, from memory and
# files. An offset above the end leaves nothing of the queue: it starts there.
cdef int cut_at(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil
# Records between are damaged or were never written: blanks keep the offsets right.
cdef int fill_gap(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil
# Behind the dispatch. Q1 where the log ended before the start, Q12 where it ended before what an
# entry of queueEnds knows: what the queues say beyond its end goes. True: one of them is damaged
# where it is to be cut, and half cut (Q8); all have to be made anew.
cdef bint truncate_beyond(RecoveryState r) except -1
# Q10: offsets that were given once are not given again.
cdef object keep_offsets(RecoveryState r)
