"""Timer turn: what timed messages do in a turn of the reactor. See timer.pxd.

    clocks    after the wall clock was read
    deliver   before the turn's write: delivers what is due, and seals
    written   after the write: feeds what came, writes the position
"""
from libc.stdint cimport int64_t

from cext.flow.context.step cimport Step
from cext.flow.delay.delay_service cimport DelayService

# The wall clock was set by `by_ms` since the last turn (schedule.pxd notices).
cdef void timer_clock_set(DelayService s, int64_t by_ms) noexcept nogil
cdef Step timers_step(DelayService s) noexcept          # deliver; the poll sleeps until it is due
cdef Step timers_written_step(DelayService s) noexcept
# Messages due before this time by the wall clock are all delivered; -1: not known yet.
cdef int64_t timer_delivered_ms(DelayService s) noexcept nogil
# Puts everything into files that is not there yet; only while the reactor stands still.
cdef void timer_seal_all(DelayService s) noexcept nogil
