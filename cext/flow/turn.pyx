"""One turn of the reactor, and the loop of turns. See turn.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.base.atomics cimport load_acquire_i32
from cext.base.clock cimport wall_ms
from cext.base.status cimport NOT_READY
from cext.flow.append.ack_queue cimport MARK_DURABLE, MARK_REPLICATED, acks_wait
from cext.flow.append.acknowledgement cimport settle_turn
from cext.flow.append.backpressure cimport backpressure_turn
from cext.flow.append.dispatch cimport handle_poison, write_and_dispatch
from cext.flow.append.replay cimport replay_waits
from cext.flow.append.turn_room cimport room_rest, room_turn
from cext.flow.context.client_state cimport UNREAD_BACKPRESSURE, UNREAD_SHARE
from cext.flow.context.control_link cimport link_wake_control
from cext.flow.control_inbox cimport take_control_messages
from cext.flow.delay.schedule cimport deliver_due, schedule_clock, schedule_wait
from cext.flow.delay.timer_turn cimport timer_deliver, timer_wait, timer_written
from cext.flow.housekeeping cimport housekeeping_turn
from cext.flow.pop.pop_merge cimport merge_turn
from cext.flow.pop.revive cimport revive_turn, revive_wait
from cext.flow.pull.held_pulls cimport wake_expired
from cext.flow.pull.pull_turn cimport answer_pulls
from cext.flow.pull.queue_repairs cimport queue_repairs_turn
from cext.flow.request_router cimport route_fetched, route_postponed
from cext.flow.transaction.transaction_end cimport write_ops
from cext.memory.spsc_ring cimport spsc_is_empty
from cext.store.log_link cimport log_own

cdef enum:
    DRAIN_MS = 1500             # at stop: how long replies that wait for a sync may take
    GATHER_PASSES_MAX = 64      # before a sync
    CATCH_UP_MS = 2             # how often the control thread is looked at that clients wait for


cdef inline bint turn_was_full(ShardState s) noexcept nogil:
    """Something waits for the room that the next turn begins with."""
    return s.append.turn_full or s.turn.net.place.connection != NULL


cdef int32_t next_timeout(ShardState s) noexcept nogil:
    """How long poll may sleep: until the next tick when something waits for time, else 1 s."""
    if (s.pull.ready != NULL or s.turn.net.dirty_first != NULL or s.fetch.parked.read_count > 0
            or turn_was_full(s)):
        return 0
    if (s.router.postponed.first != NULL or s.turn.net.unread_count(UNREAD_BACKPRESSURE) > 0
            or replay_waits(s.append)):
        return 1
    if s.turn.net.unread_count(UNREAD_SHARE) > 0:
        return timer_wait(s.delay, schedule_wait(s.delay, CATCH_UP_MS))
    if (s.pull.held_count > 0 or s.turn.stopping
            or acks_wait(&s.append.acks, MARK_DURABLE | MARK_REPLICATED)):
        return revive_wait(s.pop, timer_wait(s.delay, schedule_wait(s.delay, 50)))
    return revive_wait(s.pop, timer_wait(s.delay, schedule_wait(s.delay, 500)))


cdef bint gather(ShardState s) noexcept nogil:
    """Before a sync in this thread: takes all that has arrived. Whether the loop was woken."""
    cdef bint woken = s.turn.net.woken
    cdef int _pass
    if (not s.turn.options.sync_flush or not acks_wait(&s.append.acks, MARK_DURABLE)
            or not s.append.flusher.syncs_here()):
        return woken
    for _pass in range(GATHER_PASSES_MAX):
        if s.turn.net.place.connection != NULL:
            break                           # full: what is here is synced first
        s.turn.net.poll(0)
        if s.turn.net.event_count <= 0:
            break
        s.turn.net.receive_ready()
        woken = woken or s.turn.net.woken
    return woken


cdef void sync_turn(ShardState s) noexcept nogil:
    """Has what the turn wrote synced: here when that is quick, or by the flusher."""
    if not s.append.log.holds_flusher or s.append.log.marks.written == s.append.log.durable():
        return
    if acks_wait(&s.append.acks, MARK_DURABLE) and s.append.flusher.syncs_here():
        if s.turn.net.dirty_first != NULL:
            s.turn.net.flush()                   # what does not wait for the disk leaves before
        if s.append.flusher.sync_here() != NOT_READY:
            return
    s.append.log.wake_flusher()


cdef void run_turn(ShardState s) noexcept nogil:
    cdef int64_t wall
    cdef bint woken
    cdef int32_t timeout = next_timeout(s)
    s.turn.stalled_ms = s.append.write_us // 1000
    if s.turn.stalled_ms >= s.turn.options.send_wait_ms:
        timeout = 0                         # what came meanwhile, and nothing later
    s.append.log.reactor_sleeps()  # before the last look: who moves on from here signals
    if s.append.log.durable() != s.append.acks.durable_seen or s.append.log.commit_moved():
        timeout = 0
    s.turn.net.poll(timeout)
    s.append.log.reactor_wakes()
    s.turn.now_ms = s.turn.net.now_ms
    wall = wall_ms()
    if wall > s.turn.wall_ms:
        s.turn.wall_ms = wall                    # stored times never go back (docs/store-format.md)
    schedule_clock(s.delay, wall)
    s.append.log.new_turn()
    s.turn.counters.turns += 1
    s.append.write_us = 0
    s.append.log.holds_flusher = s.turn.options.sync_flush
    backpressure_turn(s.append)
    room_turn(s.append)
    s.turn.net.receive_ready()
    woken = gather(s)
    room_rest(s.append)
    if woken or not spsc_is_empty(&s.turn.link.to_reactor):
        take_control_messages(s.inbox)
    route_fetched(s.router)
    if s.router.postponed.first != NULL:
        route_postponed(s.router)           # behind it: they may wait for its places
    if s.turn.net.unread_count(UNREAD_SHARE) > 0 and spsc_is_empty(&s.turn.link.to_control):
        s.turn.net.go_on_reading_all(UNREAD_SHARE)
    merge_turn(s.pop)
    deliver_due(s.delay)
    timer_deliver(s.delay)
    write_ops(s.transaction)
    write_and_dispatch(s.append)
    timer_written(s.delay)
    revive_turn(s.pop)
    wake_expired(s.pull)
    s.fetch.pool.collect()
    answer_pulls(s.pull)
    write_pops(s)
    sync_turn(s)
    settle_turn(s.append)
    if s.append.log.poisoned() and not s.append.poison_logged:
        handle_poison(s.append)
    s.append.queues.turn(s.turn.wall_ms, s.append.acks.durable_seen)
    queue_repairs_turn(s.pull)
    housekeeping_turn(s.housekeeping)
    s.turn.net.flush()
    link_wake_control(&s.turn.link)


cdef inline void write_pops(ShardState s) noexcept nogil:
    """What pops and revived messages brought into the log is in its file before replies leave."""
    if s.pop.pops.appended:
        s.pop.pops.appended = False
        write_and_dispatch(s.append)


cdef bint is_drained(ShardState s) noexcept nogil:
    return (not turn_was_full(s) and s.router.postponed.first == NULL
            and not acks_wait(&s.append.acks, MARK_DURABLE | MARK_REPLICATED)
            and s.fetch.pool.drained() and s.fetch.parked.count == 0 and s.pull.ready == NULL
            and s.turn.net.dirty_first == NULL
            and (s.append.log.marks.written == s.append.log.marks.appended
                 or s.append.log.poisoned()))


cdef void run_turns(ShardState s) noexcept nogil:
    cdef int64_t stop_at = 0
    s.pull.timer_tick = s.turn.net.now_ms // 100
    s.turn.net.own(True)
    log_own(&s.append.log.link, True)
    while True:
        run_turn(s)
        if load_acquire_i32(&s.turn.stopping):
            if stop_at == 0:
                stop_at = s.turn.now_ms + DRAIN_MS
                s.turn.net.stop_accepting()
            elif is_drained(s) or s.turn.now_ms > stop_at:
                s.turn.net.own(False)
                log_own(&s.append.log.link, False)
                return
