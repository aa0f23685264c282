"""Pull service: pulls from the request to the answer; jobs of other kinds take the same way.

    pull_admission -> `ready` -> pull_batch -> pull_answer
                         ^ held_pulls, fetch

Reactor only.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.tables.tables cimport Tables
from cext.memory.buffer_pool cimport BufferPool
from cext.memory.chain cimport ChainEntry
from cext.store.queues.consume_queue cimport QUEUE_ENTRY_BYTES

cdef enum:
    TIMER_SLOTS = 1024              # of TIMER_TICK_MS each: 102 s
    TIMER_TICK_MS = 100
    SCAN_ENTRIES_AT_ONCE = 1024     # most queue entries that a pull reads at once

cdef class PullService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef BufferPool job_pool            # PullJobs, each with room for another kind's fields
    cdef uint64_t job_bytes             # of one job; set before arena_bytes()
    cdef ChainEntry* ready              # PullJobs to answer at the end of this turn
    cdef int64_t scan_cost_left         # what the filters of this turn's pulls may still cost
    cdef uint8_t raw_entries[SCAN_ENTRIES_AT_ONCE * QUEUE_ENTRY_BYTES]  # scratch
    cdef ChainEntry** timer_slots       # TIMER_SLOTS lists of held pulls
    cdef int64_t timer_tick             # last tick that was run
    cdef int64_t held_count
