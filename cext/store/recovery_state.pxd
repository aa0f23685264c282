"""Recovery state: what the steps of one recovery know of log and queues (recovery.pxd).

It is made for one recovery and then thrown away. Calling thread only; the queue writer has not been
started yet.
"""
from libc.stdint cimport int64_t

from cext.store.deleted_topics cimport DeletedTopics
from cext.store.log.checkpoint cimport CheckpointFields
from cext.store.log.commit_log cimport CommitLog
from cext.store.log.log_progress cimport LogProgress
from cext.store.log.log_scan cimport LogScan
from cext.store.queues.consume_queue cimport Queue
from cext.store.queues.queue_scan cimport QueueState
from cext.store.queues.queue_store cimport QueueStore
from cext.store.queues.tags_code cimport DelayLevels

cdef class RecoveryState:
    cdef CommitLog log
    cdef QueueStore queues
    cdef LogScan scan
    cdef DelayLevels levels
    cdef QueueState* states         # owned; by Queue.index
    cdef int64_t state_count, state_slots
    cdef int64_t table_start        # of queueEnds: how far the log was when it was written
    cdef int64_t table_anchor       # the start of the record that ends there
    cdef int64_t log_min, log_limit  # first byte of the log; end of its last segment
    cdef int64_t start              # entries below are believed, records from here on dispatched
    cdef int64_t scan_from          # start of the scan, <= start
    cdef bint everything            # S10: nothing is believed; gaps are filled with blanks
    cdef bint thorough              # pages of a queue file may be from different times
    cdef bint from_table            # A1: queueEnds was believed
    cdef CheckpointFields checkpoint
    cdef bytes boot
    cdef int64_t anchor             # start of the record that ends at `start`; -1: not known
    cdef int64_t highest            # end of the highest record that any queue names; -1: none
    cdef int64_t highest_anchor     # start of that record
    cdef int64_t dispatched, last_store_ms
    cdef int64_t unqueued           # records without a queue
    cdef int64_t gaps               # filled with blanks
    cdef int64_t cut                # entries that were taken from queues
    cdef int64_t rebuilt            # queues made anew
    cdef LogProgress progress
    cdef DeletedTopics deleted
    cdef int64_t known_end          # where the log once ended (known_end.pxd)
    cdef str row, root
    cdef list notes

    # Opens every queue that has a directory.
    cdef object find_queues(self)
    # Makes room for a state for each queue; states that are there are kept.
    cdef int grow_states(self) except -1
    cdef str name(self, Queue* queue)
    # The queue's directory; or the file, and the byte in it, where the entry of an offset is.
    cdef str path(self, Queue* queue, int64_t offset)
    # Raises StoreError for a failed system call. A file that was listed and is then not found
    # counts as damage, since its entries can be made anew from the log.
    cdef int check(self, int status, Queue* queue, QueueState* state) except -1
    cdef object note_damage(self, Queue* queue, const QueueState* state, str row)
    # Raises when a scan of the log, or the dispatch of what it found, has failed.
    cdef object check_scan(self, int status)
