"""Turn: what the reactor does between two polls, as a table of steps; and the loop of turns.

The poll comes first: it waits for sockets and for threads that wake the reactor, at most as long as
every step allows. Then the steps are run in this order:

    clock            the wall clock is read; whether it was set
    log              from here on, views of the log taken in the turn before are no longer good
    backpressure     producers are left unread while the log's next segment is missing
    room             how much this turn may append; whether the turn before was full
    lease            a master whose lease is over takes nothing, and refuses requests that wait
    receive          accept; receive; every whole frame -> its handler (request_router.pxd)
    gather           SYNC_FLUSH: receives once more what has arrived meanwhile
    whole room       connections have had their part of the room; the steps below may use all of it
    control          frames and calls that came from the control thread
    fetched          requests whose record has come from the disk
    postponed        requests that could not be done before
    share            clients whose requests control had to catch up with are read again
    merge            acks of popped messages: one record for all acks of a check point
    schedule         delayed messages that are due are appended, a bounded number
    timers           the same for timed messages
    ops              ends of transactions become op messages
    take log         bytes of the master's stream for which the log had no room before
    write            one pwritev for all records of the turn; queue entries; sends due at `written`
    timers written   the queue of timed messages is fed; the timers' position goes to a file
    revive           popped messages that nobody acknowledged come again
    expiry           held pulls whose time is over are woken
    fetch            what the disk readers have finished is handed to the requests that wait for it
    send log         what was written leaves for each slave; older bytes for slaves that are behind
    pulls            the turn's pulls, and held ones that were woken, are answered
    check points     those of this turn's pops are written to the log's file before messages leave
    sync             SYNC_FLUSH on a quick disk: fdatasync here; on a slow one the flusher is woken
    report           the master is told how far this log has come
    settle           answers due at `durable` and `replicated`; timeouts of the others
    poison           a log that failed says so once, and refuses requests that wait for it
    queues           queue entries go to their files
    queue repairs    repaired queue files: a log line, and requests that wait for them go on
    housekeeping     once a second
    flush            one send per connection with replies
    wake control     the control thread is woken when the turn has something for it

A step is declared by the file that does it (context/step.pxd). Why it stands where it does is said
in the list of turn.pyx, and what a new step needs is in docs/contributing.md. At a stop the loop
ends when every step is drained, or after DRAIN_MS. Deliveries (schedule, timers, revive) stop at
once.

Nothing in a turn waits for a lock or the interpreter. For a disk it waits in these places alone:

- every write, as long as the kernel needs for it: it makes a writer wait when too much of the page
  cache is dirty;
- `sync`, while syncs usually take less than a millisecond (cext/store/log/flusher.pxd): handing one
  to the flusher and back would take as long;
- `room`, after a turn that was full: with a store pool for the committer, POOL_WAIT_US (1 s) at
  most, and in a file whose blocks are still being allocated BLOCKS_WAIT_US (20 ms) in each turn
  (append/turn_room.pxd). Nothing else could go on: what producers have sent has no room;
- queue_room(), in the middle of a request that appends: only when every chunk of queue entries is
  in use and none is persisted. The reactor waits for the queue writer, LAST_RESORT_WAIT_MS (2 s) at
  most, or writes a queue itself; then the record is refused (cext/store/queues/queue_store.pyx);
- a deletion of queues, or a repaired queue, for which the queue writer has no free job: until it
  has one (queue_persistence.pyx).
"""
from libc.stdint cimport int32_t

from cext.flow.append.appender cimport Appender
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.shard_state cimport ShardState

cdef enum:
    STEPS = 34
    POLL = -1                           # instead of a step: the loop waits

cdef class TurnLoop:
    cdef TurnContext turn
    cdef Appender append                # the poll and its log wake each other
    cdef Step steps[STEPS]
    cdef int32_t step_count             # of `steps`; STEPS once the table is made
    cdef int32_t present                # the step that runs now, for readers in other threads

cdef TurnLoop turn_loop(ShardState s)
# What the loop does just now: the name of a step, or b"poll". Any thread, while the loop is there.
cdef bytes step_name(TurnLoop t)
# One turn, whose poll sleeps `limit` ms at most (NO_WAIT of step.pxd: as long as the steps allow).
cdef void run_turn(TurnLoop t, int32_t limit) noexcept nogil
# Runs turns until `stopping` is set and what is under way has been answered.
cdef void run_turns(TurnLoop t) noexcept nogil
