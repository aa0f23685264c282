"""Timer lifecycle: the start and the stop of timed messages.

With the GIL; the reactor does not run.
"""
from cext.flow.delay.delay_service cimport DelayService

# Takes memory, opens the files, and goes on from where the last run ended. Called after recovery of
# the store.
cdef timers_open(DelayService s, dict given)
cdef timers_start(DelayService s)
# After the reactor has ended and the log is synced: everything goes to files.
cdef timers_stop(DelayService s)
# After a file was found damaged. The order is: timers_pause in the reactor, this function,
# timers_resume in the reactor. All files are dropped, and the queue is read from its beginning.
cdef timers_reopen(DelayService s, bint is_damaged)
cdef void timers_pause(DelayService s) noexcept nogil
cdef void timers_resume(DelayService s) noexcept nogil
# Sets "timer_max_delay_sec" and the like; False when the name is none of them.
cdef bint timer_option(DelayService s, str name, value)
