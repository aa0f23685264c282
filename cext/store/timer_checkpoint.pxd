"""The checkpoint of a timer keeper: which runs there are, and what of the queue they cover.

The form stands in timer_keeper.pxd. Written new, synced, renamed, the directory synced.
"""
from libc.stdint cimport int64_t

from cext.store.timer_keeper cimport KeeperState

# Names the runs that are `named`. OK | NO_SPACE | IO_ERROR.
cdef int timer_checkpoint_save(const KeeperState* k) noexcept nogil
# Fills runs (not opened), covers and next_number. OK | NOT_FOUND | CORRUPT (also when it speaks of
# more log than there is) | IO_ERROR.
cdef int timer_checkpoint_load(KeeperState* k, int64_t log_end) noexcept nogil
