"""Keeper batches: entries that are due soon, on their way from the runs to the reactor.

Keeper's thread. The reactor takes them (TimerKeeper.next_batch).
"""
from libc.stdint cimport int64_t

from cext.store.timers.keeper_state cimport KeeperState, TimerBatch
from cext.store.timers.timer_heap cimport TimerEntry
from cext.store.timers.timer_run cimport TimerRun

cdef enum:
    AHEAD_MS = 2000             # entries are handed over so long before they are due

# The next entry of all runs. OK | NOT_FOUND | why a run cannot be read.
cdef int earliest(KeeperState* k, TimerRun** of_run, TimerEntry** entry) noexcept nogil
# Hands over what is due soon. 1: there may be more; 0: not before `due_ms`; status < 0.
cdef int load_batch(KeeperState* k, int64_t* due_ms) noexcept nogil
# Has the kernel read the records of what was handed over, those long ago stored.
cdef void prefetch(KeeperState* k, const TimerBatch* batch, const char* log_directory,
                   int64_t segment_bytes, int64_t written) noexcept nogil
