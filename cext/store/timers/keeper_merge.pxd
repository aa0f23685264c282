"""Keeper merge: makes one run of the next level of MERGE_RUNS runs, MERGE_STEP entries at a time.

Keeper's thread. Until the new run is written as a whole, the old ones are read and named by the
checkpoint.
"""
from cext.store.timers.keeper_state cimport KeeperState

# Continues a merge, or begins one. 1: there is more to merge; 0: nothing; status < 0: a run cannot
# be read or written.
cdef int merge_some(KeeperState* k) noexcept nogil
cdef void merge_end(KeeperState* k) noexcept nogil
