"""What timed messages do in a turn of the reactor. See timer_turn.pxd."""
from libc.stdint cimport int32_t, int64_t

from cext.base.atomics cimport load_acquire_i32
from cext.base.status cimport NOT_READY, OK, RING_FULL
from cext.flow.context.role cimport is_writable
from cext.flow.context.small_replies cimport log_event
from cext.flow.context.step cimport NO_WAIT, NextWait, RunStep
from cext.flow.delay.delay_service cimport DELIVER_BYTES_MAX, DELIVER_MAX, timer_queue
from cext.flow.delay.recall_table cimport recall_expire, recall_seal
from cext.flow.delay.timer cimport (
    CLOCK_STEADY,
    CLOCK_WALL,
    HEAP_ENTRIES,
    TIMER_CLOCKS,
    TimerClock,
    Timers,
)
from cext.flow.delay.timer_delivery cimport deliver_clock
from cext.flow.delay.timer_feed cimport timer_feed
from cext.flow.fetch.readahead cimport FETCH_POLL_MS
from cext.store.queues.consume_queue cimport Queue
from cext.store.timers.keeper_state cimport BATCH_ENTRIES, TimerBatch
from cext.store.timers.timer_heap cimport TIMER_NEVER, TimerKey, key_before, timer_heap_push
from cext.store.timers.timer_keeper cimport TimerKeeper
from cext.store.timers.timer_position cimport (
    TimerPosition, position_is_lost, position_is_settled, position_settles, position_write,
)

cdef enum:
    RETRY_MS = 100              # after the store refused
    SEAL_MS = 60000             # fed messages are in files after this time
    LATE_POLL_MS = 100          # longest time between looks for what the keeper owes


cdef void set_clocks(DelayService s) noexcept nogil:
    s.timers.clocks[CLOCK_WALL].now_ms = s.schedule.clock_ms
    s.timers.clocks[CLOCK_STEADY].now_ms = s.schedule.clock_ms + s.timers.shift_ms


cdef void timer_clock_set(DelayService s, int64_t by_ms) noexcept nogil:
    s.timers.shift_ms -= by_ms
    s.timers.clock_moved = True
    s.timers.seal_soon = True               # fed anew, they would have times from after it
    s.timers.next_check_ms = 0
    if s.timers.started:
        set_clocks(s)
        s.wall_keeper.set_clock(s.timers.clocks[CLOCK_WALL].now_ms,
                                s.timers.file.settled[CLOCK_WALL].due_ms)
        s.wall_keeper.wake()


# ------------------------------------------------------------------- files

cdef void load(TimerKeeper keeper, TimerClock* clock) noexcept nogil:
    """Takes what the keeper hands out: half of the heap is for that, half for what is fed."""
    cdef TimerBatch* batch = keeper.next_batch()
    cdef int64_t i
    while (batch != NULL and clock.heap.count + BATCH_ENTRIES <= HEAP_ENTRIES
           and clock.heap.count - clock.unsealed < HEAP_ENTRIES // 2):
        for i in range(batch.count):
            timer_heap_push(&clock.heap, &batch.entries[i])
        keeper.taken()
        clock.awaited_ms = 0
        batch = keeper.next_batch()


cdef void load_all(DelayService s) noexcept nogil:
    load(s.wall_keeper, &s.timers.clocks[CLOCK_WALL])
    load(s.steady_keeper, &s.timers.clocks[CLOCK_STEADY])


cdef bint can_seal(DelayService s) noexcept nogil:
    return (s.wall_keeper.can_seal() and s.steady_keeper.can_seal()
            and s.timers.clocks[CLOCK_WALL].parked_count == 0
            and s.timers.clocks[CLOCK_STEADY].parked_count == 0)


cdef void seal(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    recall_seal(&x.clocks[CLOCK_WALL].recalled, s.wall_keeper)
    recall_seal(&x.clocks[CLOCK_STEADY].recalled, s.steady_keeper)
    s.wall_keeper.seal(&x.clocks[CLOCK_WALL].heap, HEAP_ENTRIES // 4, x.fed,
                       s.append.log.marks.appended)
    s.steady_keeper.seal(&x.clocks[CLOCK_STEADY].heap, HEAP_ENTRIES // 4, x.fed,
                         s.append.log.marks.appended)
    x.clocks[CLOCK_WALL].unsealed = x.clocks[CLOCK_STEADY].unsealed = 0
    x.last_seal_ms = s.turn.now_ms
    x.seal_soon = False


cdef void seal_if_due(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef bint full = False, fresh = False
    cdef int32_t i
    for i in range(TIMER_CLOCKS):
        full = full or x.clocks[i].heap.count >= HEAP_ENTRIES or (
            x.clocks[i].unsealed >= HEAP_ENTRIES // 2)
        fresh = fresh or x.clocks[i].unsealed > 0
    if not fresh:
        x.last_seal_ms = s.turn.now_ms
        x.seal_soon = False
    if (full or x.seal_soon or s.turn.now_ms - x.last_seal_ms >= SEAL_MS) and can_seal(s):
        seal(s)


cdef void timer_seal_all(DelayService s) noexcept nogil:
    if s.timers.started and can_seal(s) and (s.timers.clocks[CLOCK_WALL].unsealed > 0
                                             or s.timers.clocks[CLOCK_STEADY].unsealed > 0):
        seal(s)


# ------------------------------------------------------------------- the turn

cdef void deliver_all(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef int32_t messages = DELIVER_MAX
    cdef int64_t bytes = DELIVER_BYTES_MAX
    cdef int status
    status = deliver_clock(s, CLOCK_WALL, &s.wall_keeper.state.bound, &messages, &bytes)
    if status == OK:
        status = deliver_clock(s, CLOCK_STEADY, &s.steady_keeper.state.bound, &messages, &bytes)
    if status == NOT_READY:
        x.next_check_ms = s.turn.now_ms + FETCH_POLL_MS
    elif status < 0 and status != RING_FULL:
        x.next_check_ms = s.turn.now_ms + RETRY_MS


cdef void timer_deliver(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    if not x.started or load_acquire_i32(&s.turn.stopping):
        return
    set_clocks(s)
    load_all(s)
    if not x.ready or s.schedule.clock_unsure:
        return
    if x.next_check_ms <= s.turn.now_ms:
        x.next_check_ms = 0
        if not is_writable(&s.turn.role) or s.append.log.poisoned():
            x.next_check_ms = s.turn.now_ms + RETRY_MS
        else:
            deliver_all(s)
    seal_if_due(s)


cdef TimerKey undelivered(const TimerClock* clock, const TimerKey* bound) noexcept nogil:
    """A key before which every message is delivered."""
    cdef TimerKey key
    key.due_ms = clock.now_ms + 1
    key.place = 0
    if key_before(bound, &key):
        key = bound[0]
    if clock.heap.count > 0 and key_before(&clock.heap.entries[0].key, &key):
        key = clock.heap.entries[0].key
    if clock.parked_count > 0 and key_before(&clock.parked, &key):
        key = clock.parked
    return key


cdef void keep_position(DelayService s, const TimerPosition* now) noexcept nogil:
    cdef Timers* x = &s.timers
    x.position = now[0]
    if position_write(&x.file, now, s.append.log.durable()) != OK and not x.file_failed:
        x.file_failed = True
        log_event(s.turn, NULL,
                  b"the position of timed messages cannot be written: after a kill some "
                  b"are delivered twice")


cdef void tell_failed_sync(DelayService s) noexcept nogil:
    """Logged once: otherwise, with a disk that cannot sync, it would be logged each second."""
    if not s.timers.sync_failed and position_is_lost(&s.timers.file):
        s.timers.sync_failed = True
        log_event(s.turn, NULL,
                  b"the position of timed messages could not be synced: it is written anew, "
                  b"and files of timers stay until it is on the disk")


cdef void write_position(DelayService s, TimerPosition* now) noexcept nogil:
    cdef Timers* x = &s.timers
    x.done_seen = x.delivered + x.recalled + x.rolled
    x.clock_moved = False
    now.fed = x.fed
    # Not `written`: deliveries into a store pool are not in the file yet.
    now.log_end = s.append.log.marks.appended
    now.shift_ms = x.shift_ms
    now.base_ms = s.schedule.clock_base
    now.boot = x.recovered.boot
    keep_position(s, now)


cdef void timer_written(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef TimerPosition now, before
    cdef int32_t i
    if not x.started or s.append.log.poisoned():
        return
    timer_feed(s)
    if not x.ready:
        return
    now.before[CLOCK_WALL] = undelivered(&x.clocks[CLOCK_WALL], &s.wall_keeper.state.bound)
    now.before[CLOCK_STEADY] = undelivered(&x.clocks[CLOCK_STEADY], &s.steady_keeper.state.bound)
    tell_failed_sync(s)
    if x.done_seen != x.delivered + x.recalled + x.rolled or x.clock_moved:
        write_position(s, &now)
    elif position_settles(&x.file, s.append.log.durable()):
        before = x.position             # written once more, so that runs can be deleted
        keep_position(s, &before)
    # Deliveries that a power cut may undo stay in runs until then.
    if not position_is_settled(&x.file, &x.position):
        for i in range(TIMER_CLOCKS):
            now.before[i] = x.file.settled[i]
    for i in range(TIMER_CLOCKS):       # a deletion that is in no run waits for the next seal
        recall_expire(&x.clocks[i].recalled, now.before[i].due_ms)
    s.wall_keeper.set_clock(x.clocks[CLOCK_WALL].now_ms, now.before[CLOCK_WALL].due_ms)
    s.steady_keeper.set_clock(x.clocks[CLOCK_STEADY].now_ms, now.before[CLOCK_STEADY].due_ms)


cdef int64_t timer_delivered_ms(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef Queue* queue = timer_queue(s)
    if not x.ready or queue == NULL or x.fed < queue.max_offset \
            or queue.next_offset != queue.max_offset:
        return -1
    return undelivered(&x.clocks[CLOCK_WALL], &s.wall_keeper.state.bound).due_ms


cdef int64_t next_due(DelayService s, TimerClock* clock, const TimerKey* bound) noexcept nogil:
    """How many ms until the next message is due, as far as is known."""
    cdef int64_t due_ms = bound.due_ms
    if clock.heap.count > 0 and clock.heap.entries[0].key.due_ms < due_ms:
        due_ms = clock.heap.entries[0].key.due_ms
    if due_ms == TIMER_NEVER:
        return TIMER_NEVER
    # Something is due but in no heap: the keeper is late, maybe for long, if its disk is ill.
    if due_ms <= clock.now_ms and (
            clock.heap.count == 0 or not key_before(&clock.heap.entries[0].key, bound)):
        if clock.awaited_ms == 0:
            clock.awaited_ms = s.turn.now_ms
        return min(<int64_t> LATE_POLL_MS,
                   max(<int64_t> 1, (s.turn.now_ms - clock.awaited_ms) // 8))
    return due_ms - clock.now_ms


cdef int32_t timer_wait(DelayService s) noexcept nogil:
    cdef Timers* x = &s.timers
    cdef Queue* queue
    cdef int64_t left, feed = NO_WAIT
    if not x.started:
        return NO_WAIT
    queue = timer_queue(s)
    if queue != NULL and x.fed < queue.max_offset:
        feed = max(<int64_t> 1, x.feed_again_ms - s.turn.now_ms)
        if feed == 1 or not x.ready:        # nothing is delivered before all is fed
            return <int32_t> feed
    left = min(next_due(s, &x.clocks[CLOCK_WALL], &s.wall_keeper.state.bound),
               next_due(s, &x.clocks[CLOCK_STEADY], &s.steady_keeper.state.bound))
    left = max(left, x.next_check_ms - s.turn.now_ms)
    return <int32_t> max(<int64_t> 0, min(left, feed))


cdef Step timers_step(DelayService s) noexcept:
    return Step(b"timers", <void*> s, <RunStep> timer_deliver, <NextWait> timer_wait, NULL)


cdef Step timers_written_step(DelayService s) noexcept:
    return Step(b"timers written", <void*> s, <RunStep> timer_written, NULL, NULL)
