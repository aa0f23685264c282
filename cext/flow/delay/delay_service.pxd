"""Delay service: messages that are delivered later, by levels (schedule) or to the ms (timers).

Reactor only, except for the timer keepers, which have threads of their own
(cext/store/timers/timer_keeper.pxd).
"""
from cext.flow.append.appender cimport Appender
from cext.flow.context.service cimport Service
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.delay.delay_level cimport Schedule
from cext.flow.delay.timer cimport Timers
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.tables.tables cimport Tables
from cext.store.queues.consume_queue cimport Queue
from cext.store.timers.timer_keeper cimport TimerKeeper

cdef enum:
    DELIVER_MAX = 256           # messages of one turn
    DELIVER_BYTES_MAX = 524288  # bytes of one turn (the last message may go beyond)

cdef class DelayService(Service):
    cdef TurnContext turn
    cdef Tables tables
    cdef Appender append
    cdef FetchService fetch
    cdef Schedule schedule              # delayed messages
    cdef Timers timers                  # timed messages
    cdef TimerKeeper wall_keeper        # None without timed messages
    cdef TimerKeeper steady_keeper

# The queue of timed messages, or NULL.
cdef Queue* timer_queue(DelayService s) noexcept nogil
