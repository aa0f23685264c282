"""Dispatch: the middle of a turn: its records go to the file, then to their consume queues.

Order: first the write (one pwritev for all records of the turn), then the queue entries, then the
clients that wait for them (dispatch_hook.pxd). A consumer can therefore never be given a record
that would be lost if the process were killed.

Dispatch reads the log from marks.dispatched on, up to `written` and `visible`. Its fast path is the
list of records that this process appended; records in no list are read from the log (replay.pxd).

A record whose queue has no room for its entry (queue_store.pxd) ends the dispatch of this turn. The
record is in the log and answered, and comes first in the next turn. Until it has its entry nothing
more is appended (turn_room.pxd), so no more records wait than one turn took.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Writes and dispatches what was appended since the last call, and answers what was waiting for
# `written`. Returns OK, also while a queue has no room, or POISONED. Called by a step of the turn
# and by calls of control, which run between two requests; never in the middle of a request, because
# it would answer other requests there (turn_room.pxd).
cdef int write_and_dispatch(Appender s) noexcept nogil
# The same once a turn. The poll does not sleep after a write-out that kept clients waiting, and not
# for long while there is more to replay or a queue has no room.
cdef Step write_step(Appender s) noexcept
# Logs once why nothing is acked any more, and refuses everything that waits.
cdef Step poison_step(Appender s) noexcept
