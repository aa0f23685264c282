"""Keeper runs: adds and drops the runs of a timer keeper, which seals and merges make.

Keeper's thread, or another before it runs.
"""
from libc.stdint cimport int64_t, uint64_t

from cext.store.timers.keeper_state cimport KeeperState
from cext.store.timers.timer_heap cimport TimerKey
from cext.store.timers.timer_run cimport RunWriter

# Marks a file for removal, once a checkpoint that does not name it is on the disk.
cdef void doom(KeeperState* k, uint64_t number) noexcept nogil
cdef void drop_run(KeeperState* k, int64_t at) noexcept nogil
# Drops runs whose entries are all handed over and delivered.
cdef void drop_delivered(KeeperState* k) noexcept nogil
# Adds a new run, whose entries are handed over from a key on. OK, or a status that says why it
# cannot be read.
cdef int add_run(KeeperState* k, const RunWriter* written, int64_t level, int64_t last_ms,
                 int64_t covers, int64_t log_end, const TimerKey* from_key) noexcept nogil
# Makes a run of the sealed entries. OK, or a status that says why not; it is then tried again.
cdef int take_seal(KeeperState* k) noexcept nogil
