"""Dispatch: the middle of a turn: its records go to the file, then to their consume queues.

Order: write (one pwritev for all records of the turn), then queue entries, then who waits for them
(dispatch_hook.pxd). A consumer can therefore never be given a record that a killed process would
lose.

Dispatch reads the log from marks.dispatched on, up to `written` and `visible`. The list of what
this process appended is its fast path; what is in no list it reads from the log (replay.pxd).

A record whose queue has no room for its entry (queue_store.pxd) ends the dispatch of this turn: it
is in the log, answered, and first in the next turn. Until it has its entry nothing more is appended
(turn_room.pxd), so no more waits than one turn took.
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step

# Writes and dispatches what was appended since the last call, and answers what was waiting for
# `written`. Returns OK, also while a queue has no room, or POISONED. A step of the turn, and of
# calls of control between two requests; never in the middle of a request, which would answer others
# there (turn_room.pxd).
cdef int write_and_dispatch(Appender s) noexcept nogil
# The same once a turn. The poll does not sleep behind a write-out that kept clients waiting, nor
# long while there is more to be replayed or a queue has no room.
cdef Step write_step(Appender s) noexcept
# Says once why nothing is acked any more and refuses all that waits.
cdef Step poison_step(Appender s) noexcept
