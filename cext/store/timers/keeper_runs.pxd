"""Keeper runs: those that a timer keeper has, from the seal or the merge that made them on.

Keeper's thread, or before it runs.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.store.timers.keeper_state cimport KeeperState
from cext.store.timers.timer_heap cimport TimerKey
from cext.store.timers.timer_run cimport RunWriter

# The file goes once a checkpoint is on disk that does not name it.
cdef void doom(KeeperState* k, uint64_t number) noexcept nogil
cdef void drop_run(KeeperState* k, int64_t at) noexcept nogil
# Runs of which nothing is left to be handed over nor to be delivered.
cdef void drop_delivered(KeeperState* k) noexcept nogil
# A new run, to be handed over from a key on. OK, or why it cannot be read.
cdef int add_run(KeeperState* k, const RunWriter* written, int64_t level, int64_t last_ms,
                 int64_t covers, int64_t log_end, const TimerKey* from_key) noexcept nogil
# The sealed entries become a run. OK, or why not: it is tried again.
cdef int take_seal(KeeperState* k) noexcept nogil
