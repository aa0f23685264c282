"""Recovery start: where dispatch starts, and what queue files must hold below it.

These are rows S and A of recovery.pxd.
"""
from libc.stdint cimport int64_t

from cext.store.recovery_state cimport RecoveryState

# Sets row, start and scan_from and, if there is a queueEnds, the queues' known ends.
cdef object choose_start(RecoveryState r, bint clean)
# Sets a row: entries below `start` are believed, or none is if `everything` must be made anew.
cdef object begin(RecoveryState r, str row, int64_t start, bint everything=*)
# A3: reads the log to learn the queues' ends below the start.
cdef object read_ends(RecoveryState r)
