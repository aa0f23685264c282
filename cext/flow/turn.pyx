"""One turn of the reactor, and the loop of turns. See turn.pxd."""
cimport cython
from libc.stdint cimport int64_t

from cext.base.atomics cimport load_acquire_i32
from cext.base.check cimport check
from cext.flow.append.acknowledgement cimport settle_step
from cext.flow.append.backpressure cimport backpressure_step
from cext.flow.append.dispatch cimport poison_step, write_step
from cext.flow.append.log_turn cimport (
    gather_step,
    log_sleeps,
    log_step,
    log_wakes,
    queues_step,
    sync_step,
)
from cext.flow.append.turn_room cimport room_step, whole_room_step
from cext.flow.connection_events cimport flush_step, receive_step
from cext.flow.context.small_replies cimport share_step, wake_control_step
from cext.flow.context.step cimport NO_WAIT
from cext.flow.control_inbox cimport control_step
from cext.flow.delay.schedule cimport clock_step, schedule_step
from cext.flow.delay.timer_turn cimport timers_step, timers_written_step
from cext.flow.fetch.fetch_service cimport fetch_step
from cext.flow.housekeeping cimport housekeeping_step
from cext.flow.pop.pop_merge cimport merge_step
from cext.flow.pop.revive cimport revive_step
from cext.flow.pop.revive_log cimport check_points_step
from cext.flow.pull.held_pulls cimport expiry_step
from cext.flow.pull.pull_turn cimport pulls_step
from cext.flow.queue_repairs cimport queue_repairs_step
from cext.flow.replication.ha_client cimport report_step, take_log_step
from cext.flow.replication.ha_lease cimport lease_step
from cext.flow.replication.ha_sender cimport send_log_step
from cext.flow.request_router cimport fetched_step, postponed_step
from cext.flow.transaction.transaction_end cimport ops_step
from cext.store.log.log_link cimport log_own

from rmq.errors import not_copied

cdef enum:
    # At a stop: how long unfinished work may take, such as answers that wait for a sync or a slave.
    DRAIN_MS = 1500
    STOP_WAIT_MS = 50           # between two looks at unfinished work at a stop


@cython.no_gc                       # in no reference cycle; a shard needs it whole at its end
cdef class TurnLoop:
    def __reduce__(self):
        raise not_copied(self, "it is of one shard")


cdef void add(TurnLoop t, Step step) noexcept:
    check(t.step_count < STEPS, b"a turn has a place for each of its steps", STEPS, 0)
    t.steps[t.step_count] = step
    t.step_count += 1


cdef TurnLoop turn_loop(ShardState s):
    cdef TurnLoop t = TurnLoop()
    t.turn = s.turn
    t.append = s.append
    # The beginning of a turn: all later steps use these clocks and views.
    add(t, clock_step(s.delay))
    add(t, log_step(s.append))
    # Receiving. Backpressure says which sockets are read.
    add(t, backpressure_step(s.append))
    add(t, room_step(s.append))
    add(t, lease_step(s.ha))            # before anything is taken
    add(t, receive_step(s.events))
    add(t, gather_step(s.append))
    add(t, whole_room_step(s.append))     # connections have had their part of the room
    add(t, control_step(s.inbox))
    add(t, fetched_step(s.router))
    add(t, postponed_step(s.router))    # after `fetched`: they may need its places
    add(t, share_step(s.turn))
    # Appending, in the turn's own write.
    add(t, merge_step(s.pop))           # after all requests of the turn: one record for many acks
    add(t, schedule_step(s.delay))
    add(t, timers_step(s.delay))
    add(t, ops_step(s.transaction))     # in one write with the messages they commit
    add(t, take_log_step(s.ha))
    add(t, write_step(s.append))
    # Steps that use what was written.
    add(t, timers_written_step(s.delay))    # the position is never ahead of the log's file
    add(t, revive_step(s.pop))              # up to where the timers have delivered
    # Answering, only from what is in the file.
    add(t, expiry_step(s.pull))
    add(t, fetch_step(s.fetch))
    add(t, send_log_step(s.ha))         # before the sync: slaves' disks work at the same time
    add(t, pulls_step(s.pull))
    add(t, check_points_step(s.pop))    # a pop's messages leave after its check point is written
    add(t, sync_step(s.append))         # after the turn's last write: one sync for all of it
    add(t, report_step(s.ha))           # what the sync has just moved is reported in this turn
    add(t, settle_step(s.append))
    add(t, poison_step(s.append))       # a sync that has just failed is answered in this turn
    # The end of the turn.
    add(t, queues_step(s.append))       # after settle: entries of durable records
    add(t, queue_repairs_step(s.pull))
    add(t, housekeeping_step(s.housekeeping))
    add(t, flush_step(s.events))        # after all steps that answer
    add(t, wake_control_step(s.turn))
    check(t.step_count == STEPS, b"a turn has all of its steps", t.step_count, STEPS)
    return t


cdef bytes step_name(TurnLoop t):
    cdef int32_t present = t.present
    return <bytes> t.steps[present].name if present >= 0 else b"poll"


cdef int32_t sleep_limit(TurnLoop t, int32_t limit) noexcept nogil:
    """How long the poll may sleep: as long as every step allows, and `limit` at most."""
    cdef int32_t i, wait
    for i in range(STEPS):
        if t.steps[i].next_wait != NULL:
            wait = t.steps[i].next_wait(t.steps[i].service)
            if wait <= 0:
                return 0
            if wait < limit:
                limit = wait
    return limit


cdef void run_turn(TurnLoop t, int32_t limit) noexcept nogil:
    cdef int32_t i
    limit = sleep_limit(t, limit)
    t.present = POLL
    if log_sleeps(t.append):            # the last look before the poll
        limit = 0
    t.turn.net.poll(limit)
    log_wakes(t.append)
    t.turn.now_ms = t.turn.net.now_ms
    t.turn.counters.turns += 1
    for i in range(STEPS):
        t.present = i
        t.steps[i].run(t.steps[i].service)


cdef bint is_drained(TurnLoop t) noexcept nogil:
    cdef int32_t i
    for i in range(STEPS):
        if t.steps[i].drained != NULL and not t.steps[i].drained(t.steps[i].service):
            return False
    return True


cdef void run_turns(TurnLoop t) noexcept nogil:
    cdef int64_t stop_at = 0
    cdef int32_t limit = NO_WAIT
    t.turn.net.own(True)
    log_own(&t.append.log.link, True)
    while True:
        run_turn(t, limit)
        if load_acquire_i32(&t.turn.stopping):
            if stop_at == 0:
                stop_at = t.turn.now_ms + DRAIN_MS
                t.turn.net.stop_accepting()
                limit = 0               # takes what has come, but does not wait for more
            elif is_drained(t) or t.turn.now_ms > stop_at:
                t.turn.net.own(False)
                log_own(&t.append.log.link, False)
                return
            else:
                limit = STOP_WAIT_MS
