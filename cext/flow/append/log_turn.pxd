"""Log turn: the log's part of a turn of the reactor: sleep, views, one sync for many, queue files.

    log_sleeps   the last thing before the poll: who moves a mark from here on wakes the reactor
    log          views of the log are good until here; what the turn before cost is known
    gather       SYNC_FLUSH on a quick disk: takes what has arrived meanwhile, as one sync is to
                 serve all of it
    sync         has what the turn wrote synced: here when that is quick, or by the flusher
    queues       what consume queues hold in memory goes to their files, by time and by size

Nothing waits for a disk here but while its syncs usually take less than a millisecond
(cext/store/log/flusher.pxd): to hand over and back would take as long.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Whether a mark has moved since it was looked at last: then the poll does not sleep.
cdef bint log_sleeps(Appender s) noexcept nogil
cdef void log_wakes(Appender s) noexcept nogil

cdef Step log_step(Appender s) noexcept
cdef Step gather_step(Appender s) noexcept
cdef Step sync_step(Appender s) noexcept
cdef Step queues_step(Appender s) noexcept
