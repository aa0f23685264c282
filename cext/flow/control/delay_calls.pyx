"""Delay calls. See delay_calls.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from cext.base.status cimport CLOSED, NOT_READY, OK, raise_status
from cext.flow.context.call_block cimport Block, block_numbers, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.context.role cimport is_slave
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.delay.schedule cimport schedule_open
from cext.flow.delay.timer cimport CLOCK_STEADY, CLOCK_WALL
from cext.flow.delay.timer_lifecycle cimport timers_pause, timers_reopen, timers_resume
from cext.store.timers.timer_heap cimport TimerKey
from cext.store.timers.timer_position cimport TimerPosition, position_write
from cext.wire.limits cimport DELAY_LEVELS_MAX

from rmq.errors import StoreError


cdef struct SetDelayLevels:
    int32_t count
    int64_t delays_ms[DELAY_LEVELS_MAX]
    int64_t offsets[DELAY_LEVELS_MAX]   # where each level goes on
    # results
    int status


cdef void set_delay_levels(DelayService s, SetDelayLevels* x) noexcept nogil:
    x.status = schedule_open(s, x.delays_ms, x.offsets, x.count)


cdef struct DelayOffsets:
    bint stop                   # end delivery, too
    # results
    int status
    int64_t log_end             # everything delivered is below
    Block block                 # per level the i64 offset of the first message not delivered


cdef void delay_offsets(DelayService s, DelayOffsets* x) noexcept nogil:
    cdef int32_t i
    x.status = block_take(&x.block, 8 * s.schedule.count)
    if x.status != OK:
        return
    for i in range(s.schedule.count):
        memcpy(x.block.bytes + 8 * i, &s.schedule.levels[i].next_offset, 8)
    x.log_end = s.append.log.marks.appended
    if x.stop:
        s.schedule.count = 0
        s.turn.tables_loaded = False


cdef void pause_timers(DelayService s, void* _given) noexcept nogil:
    timers_pause(s)


cdef void resume_timers(DelayService s, void* _given) noexcept nogil:
    timers_resume(s)


# ---------------------------------------------------------------- how far timed messages are

cdef struct TimersDelivered:        # the steady clock's times as if of the wall clock
    TimerKey wall
    TimerKey steady
    int64_t fed
    int64_t log_end
    # results
    int status                      # NOT_READY: timers are off; CLOSED: masters take no position


cdef void timers_delivered(DelayService s, TimersDelivered* x) noexcept nogil:
    cdef TimerPosition* p = &s.timers.position
    x.status = OK if s.timers.enabled else NOT_READY
    x.wall = p.before[CLOCK_WALL]
    x.steady = p.before[CLOCK_STEADY]
    if x.steady.due_ms > 0:
        x.steady.due_ms -= p.shift_ms
    x.fed = p.fed
    x.log_end = p.log_end


cdef void set_timers_delivered(DelayService s, TimersDelivered* x) noexcept nogil:
    """A slave takes its master's position: the log is the same, and so are places in it."""
    cdef TimerPosition now = s.timers.position
    x.status = CLOSED
    if not is_slave(&s.turn.role):
        return
    x.status = OK if s.timers.enabled else NOT_READY
    if x.status != OK:
        return
    now.before[CLOCK_WALL] = x.wall
    now.before[CLOCK_STEADY] = x.steady
    if x.steady.due_ms > 0:
        now.before[CLOCK_STEADY].due_ms += s.timers.shift_ms
    now.fed = x.fed
    now.log_end = x.log_end
    now.shift_ms = s.timers.shift_ms
    now.base_ms = s.schedule.clock_base
    now.boot = s.timers.recovered.boot
    s.timers.position = now
    position_write(&s.timers.file, &now, s.append.log.durable())


cdef class DelayCalls(RetentionCalls):
    def set_delay_levels(self, list delays_ms, list offsets):
        cdef SetDelayLevels x
        cdef int32_t i, count = len(delays_ms)
        if count > DELAY_LEVELS_MAX or len(offsets) != count:
            raise ValueError(f"{count} delay levels, {len(offsets)} offsets")
        x.count = count
        for i in range(count):
            x.delays_ms[i] = delays_ms[i]
            x.offsets[i] = offsets[i]
        self._call(<CallFn> set_delay_levels, <void*> self.delays, &x)
        raise_status(x.status, "delay levels")

    def delay_offsets(self, int32_t stop=0):
        cdef DelayOffsets x
        x.stop = stop != 0
        self._call(<CallFn> delay_offsets, <void*> self.delays, &x)
        raise_status(x.status, "delay offsets")
        return block_numbers(&x.block), x.log_end

    def timers_delivered(self):
        cdef TimersDelivered x
        self._call(<CallFn> timers_delivered, <void*> self.delays, &x)
        if x.status != OK:
            return None
        return (x.wall.due_ms, x.wall.place, x.steady.due_ms, x.steady.place, x.fed, x.log_end)

    def set_timers_delivered(self, tuple position):
        cdef TimersDelivered x
        (x.wall.due_ms, x.wall.place, x.steady.due_ms, x.steady.place, x.fed, x.log_end) = position
        self._call(<CallFn> set_timers_delivered, <void*> self.delays, &x)
        if x.status == CLOSED:
            raise StoreError("how far timed messages are is a master's own matter")

    def restart_timers(self, int is_damaged=1):
        if not self.delays.timers.enabled:
            return
        self._call(<CallFn> pause_timers, <void*> self.delays, NULL)
        timers_reopen(self.delays, is_damaged)
        self._call(<CallFn> resume_timers, <void*> self.delays, NULL)
