"""Turn: what the reactor does between two polls, as a table of steps; and the loop of turns.

The poll comes first: it waits for sockets and for whoever wakes the reactor, at most as long as
every step allows. Then the steps are run in this order:

    clock            the wall clock is read; whether it was set
    log              views of the log are good until here
    backpressure     producers are left unread while the log's next segment is missing
    room             how much this turn may append; whether the one before was full
    lease            a master whose lease is over takes nothing, and refuses who waits
    receive          accept; receive; every whole frame -> its handler (request_router.pxd)
    gather           SYNC_FLUSH: once more for what has arrived meanwhile
    whole room       connections have had their part of the room; what follows may take all of it
    control          frames and calls that came from the control thread
    fetched          requests whose record has come from the disk
    postponed        requests that could not be done before
    share            clients that control was to catch up with are read on
    merge            acks of popped messages, one record for those of a check point
    schedule         delayed messages that are due are appended, a bounded number
    timers           timed ones
    ops              ends of transactions become op messages
    take log         of the master's stream, what had no room in the log before
    write            one pwritev for all records of the turn; queue entries; sends due at `written`
    timers written   the queue of timed messages is fed; where timers are goes to a file
    revive           popped messages that nobody acknowledged come again
    expiry           held pulls whose time is over are woken
    fetch            what the disk readers have finished is handed to who asked
    send log         what was written leaves for each slave; history for who is behind
    pulls            those of the turn and those woken are answered
    check points     of these pops, in the log's file before their messages leave
    sync             SYNC_FLUSH on a quick disk: fdatasync here; on a slow one the flusher is woken
    report           the master is told how far this log is
    settle           sends due at `durable` and `replicated`; timeouts of the others
    poison           a log that failed says so once, and refuses who waits for it
    queues           queue entries go to their files
    queue repairs    repaired queue files: a line in the log, who waits for them goes on
    housekeeping     once a second
    flush            one send per connection with replies
    wake control     the control thread hears what the turn has for it

A step is declared by the file that does it (context/step.pxd); why it stands where it does is said
in the list of turn.pyx, and what one more takes is in docs/contributing.md. At a stop the loop ends
when every step is drained, or after DRAIN_MS. Deliveries (schedule, timers, revive) end at once.

Nothing in a turn waits for a lock or the interpreter, and for a disk only while its syncs usually
take less than a millisecond (cext/store/log/flusher.pxd): to hand over and back would take as long.
"""
from libc.stdint cimport int32_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.shard_state cimport ShardState

cdef enum:
    STEPS = 34
    POLL = -1                           # in the place of a step: the loop waits

cdef class TurnLoop:
    cdef TurnContext turn
    cdef Appender append                # the poll and its log wake each other
    cdef Step steps[STEPS]
    cdef int32_t step_count             # of them; all, once it is made
    cdef int32_t present                # the step that runs, for who watches from another thread

cdef TurnLoop turn_loop(ShardState s)
# Any thread, while the loop is there. What it does just now: the name of a step, or b"poll".
cdef bytes step_name(TurnLoop t)
cdef void run_turn(TurnLoop t) noexcept nogil
# Turns until `stopping` is set and what is under way has been answered.
cdef void run_turns(TurnLoop t) noexcept nogil
