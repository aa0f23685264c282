"""Recovery queues: cuts each queue's files at the start, compares them, removes or fills them.

These are rows Q of recovery.pxd.
"""
from libc.stdint cimport int64_t

from cext.store.queues.consume_queue cimport Queue
from cext.store.recovery_state cimport RecoveryState

# Before the dispatch: cuts every queue at the start and sets its range.
cdef object prepare_queues(RecoveryState r)
# While dispatching: ends the queue at `offset`. Entries from there on are removed, from memory and
# files. When `offset` is above the queue's end nothing of the queue is left: it starts there.
cdef int cut_at(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil
# While dispatching: fills the queue with blanks up to `offset`, so that later offsets are right.
# The records in between are damaged or were never written.
cdef int fill_gap(RecoveryState r, Queue* queue, int64_t offset) noexcept nogil
# After the dispatch: removes entries of records beyond the log's end. That is Q1 when the log ends
# below the start, and Q12 when it ends below a record that queueEnds knows. True: a queue is
# damaged where it must be cut, and is now half cut (Q8), so all queues must be made anew.
cdef bint truncate_beyond(RecoveryState r) except -1
# Q10: takes care that no offset that was given once is given again.
cdef object keep_offsets(RecoveryState r)
