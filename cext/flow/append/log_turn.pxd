"""Log turn: the log's part of a turn of the reactor: sleep, views, one sync for many, queue files.

    log_sleeps   the last thing before the poll: a thread that moves a mark from now on wakes the
                 reactor
    log          from here on, views of the log taken before are no longer good; the time that the
                 turn before took is known
    gather       SYNC_FLUSH on a quick disk: receives what has arrived meanwhile, so that one sync
                 serves all of it
    sync         has the turn's records synced: here when that is quick, else by the flusher
    queues       what consume queues hold in memory goes to their files, by time and by size

Only the sync step waits for a disk, and only while its syncs usually take less than a millisecond
(cext/store/log/flusher.pxd), because handing a sync to the flusher and back would take as long.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Returns whether a mark has moved since it was last looked at: then the poll does not sleep.
cdef bint log_sleeps(Appender s) noexcept nogil
cdef void log_wakes(Appender s) noexcept nogil

cdef Step log_step(Appender s) noexcept
cdef Step gather_step(Appender s) noexcept
cdef Step sync_step(Appender s) noexcept
cdef Step queues_step(Appender s) noexcept
