"""Backpressure: producers' sockets are not read while the next log segment is missing.

    the active segment is nearly full and the next one is not there (the disk is busy); or, after
    a start, the blocks of the active segment are nearly used up (commit_log.pxd, "Room")
        -> a connection that sends is read no further (UNREAD_BACKPRESSURE); what was received from
           it is stored
    the next segment is there, or the disk is full, or page_cache_busy_ms went by
        -> all are read again; without a next segment sends are refused when the active one is full

So a client that sends faster than the disk makes files is slowed down. Otherwise thousands of its
sends would be refused in the milliseconds that a busy disk takes for one sync.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Runs before anything is received. The poll hardly sleeps while producers are left unread.
cdef Step backpressure_step(Appender s) noexcept
