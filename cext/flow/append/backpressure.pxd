"""Backpressure: producers' sockets are not read while the next log segment is missing.

    the active segment is nearly full, the next one not there (the disk is busy); or what it has
    blocks for is, after a start (commit_log.pxd, "Room")
        -> a connection that sends is read no further (UNREAD_BACKPRESSURE); what was received is
           stored
    the next one is there, or the disk is full, or page_cache_busy_ms went by
        -> all are read on; without a next segment they are refused when the active one is full

So a client that sends faster than the disk makes files is slowed down, and not refused thousands
of times within the milliseconds that a busy disk takes for one sync.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Before anything is received. The poll hardly sleeps while producers are left unread.
cdef Step backpressure_step(Appender s) noexcept
