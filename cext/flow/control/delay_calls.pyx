"""Delay calls. See delay_calls.pxd."""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from cext.base.status cimport OK, raise_status
from cext.flow.context.call_block cimport Block, block_numbers, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.delay.delay_service cimport DelayService
from cext.flow.delay.schedule cimport schedule_open
from cext.flow.delay.timer_open cimport timers_pause, timers_reopen, timers_resume
from cext.wire.limits cimport DELAY_LEVELS_MAX


cdef struct SetDelayLevels:
    int32_t count
    int64_t delays_ms[DELAY_LEVELS_MAX]
    int64_t offsets[DELAY_LEVELS_MAX]   # to go on from
    # results
    int status


cdef void set_delay_levels(DelayService s, SetDelayLevels* x) noexcept nogil:
    x.status = schedule_open(s, x.delays_ms, x.offsets, x.count)


cdef struct DelayOffsets:
    bint stop                   # delivery ends here
    # results
    int status
    int64_t log_end             # all that was delivered is below
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

    def restart_timers(self):
        self._call(<CallFn> pause_timers, <void*> self.delays, NULL)
        timers_reopen(self.delays)
        self._call(<CallFn> resume_timers, <void*> self.delays, NULL)
