"""Log room: what the reactor keeps of the room that the log has, in one turn and over several.

TurnRoom is turn_room's (turn_room.pxd says how far a turn may go), Backpressure that of the step
that leaves producers unread (backpressure.pxd). Both are in the Appender, which their functions
take; so they stand in a header of their own, below it.

Example: a turn has appended 16,384 records, and one more send comes, of 300 bytes: turn_full is
set and bytes_wanted is 300, and the next turn, which follows at once, begins with that send.
"""
from libc.stdint cimport int32_t, int64_t

cdef struct TurnRoom:
    # How far this turn may go: entries in the list of records to dispatch, and offset in the log.
    int32_t list_end
    int64_t log_end
    bint turn_full              # some request found no room: the next turn follows at once
    bint stuck                  # the turn before was full as well, and moved nothing
    bint connections_first      # the requests of now come straight from connections
    bint owed                   # something else than a connection found no room
    int64_t bytes_wanted        # most bytes asked for in vain
    int64_t blocks_wanted       # the same, where the log's file has no blocks yet
    int64_t blocks_since_ms     # monotonic, since when it waits for them; 0: it does not
    int64_t blocks_late         # where its blocks ended when they did not come in time
    int64_t moved_before        # sum of the marks when the turn began

cdef struct Backpressure:
    bint leaves_unread          # connections that send are left unread
    int64_t since_ms            # monotonic, nearly full since then; 0: the log is not nearly full
