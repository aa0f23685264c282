"""Keeper batches: entries that are due soon, on their way from the runs to the reactor.

Keeper's thread. The reactor takes the batches (TimerKeeper.next_batch).
"""
from libc.stdint cimport int64_t

from cext.store.timers.keeper_state cimport KeeperState, TimerBatch
from cext.store.timers.timer_heap cimport TimerEntry
from cext.store.timers.timer_run cimport TimerRun

cdef enum:
    AHEAD_MS = 2000             # entries are handed over so long before they are due

# The next entry of all runs. OK | NOT_FOUND | a status that says why a run cannot be read.
cdef int earliest(KeeperState* k, TimerRun** of_run, TimerEntry** entry) noexcept nogil
# Hands over entries that are due soon. 1: there may be more; 0: none before `due_ms`; status < 0.
cdef int load_batch(KeeperState* k, int64_t* due_ms) noexcept nogil
# Makes the kernel read the records of a batch, except those near the log's end.
cdef void prefetch(KeeperState* k, const TimerBatch* batch, const char* log_directory,
                   int64_t segment_bytes, int64_t written) noexcept nogil
