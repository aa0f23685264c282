"""Keeper merge: MERGE_RUNS runs of a level become one of the next, MERGE_STEP entries at a time.

Keeper's thread. Until all of it is written the old runs are read, and named by the checkpoint.
"""
from cext.store.timers.keeper_state cimport KeeperState

# Goes on, or begins one. 1: there is more to merge; 0: nothing; status < 0: a run cannot be read
# or written.
cdef int merge_some(KeeperState* k) noexcept nogil
cdef void merge_end(KeeperState* k) noexcept nogil
