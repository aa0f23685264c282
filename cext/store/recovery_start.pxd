"""Recovery start: where dispatch starts, and what queue files must hold below it.

Rows S and A of recovery.pxd.
"""
from libc.stdint cimport int64_t

from cext.store.recovery_state cimport RecoveryState

# Sets row, start and scan_from, and the queues' known ends where there are queueEnds.
cdef object choose_start(RecoveryState r, bint clean)
# A row that is known: entries below `start` are believed, unless `everything` is made anew.
cdef object begin(RecoveryState r, str row, int64_t start, bint everything=*)
# A3: the log says what lies below the start.
cdef object read_ends(RecoveryState r)
