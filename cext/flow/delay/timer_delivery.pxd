"""Timer delivery: messages that are due are delivered, stored anew, or dropped because recalled.

    delivered    to REAL_TOPIC, REAL_QID with all properties, TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS
                 added, as Apache RocketMQ leaves them; in the turn's own write
    stored anew  in rmq_sys_wheel_timer with TIMER_ROLL_TIMES + 1
    deletion     TIMER_DEL_UNIQKEY = topic + "+" + UNIQ_KEY: kept in a table; a message with that
                 name that is due up to a second later is dropped (Apache's deletions carry whole
                 seconds)

At most DELIVER_MAX messages and DELIVER_BYTES_MAX bytes a turn (delay_service.pxd), so that a
million messages due at once delay a send by a fraction of a millisecond. A message whose topic is
gone waits aside while control makes the topic (WANT_TOPIC); the others go on.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.delay.delay_service cimport DelayService
from cext.store.timers.timer_heap cimport TimerKey

# Delivers what is due by one clock and lies before `bound`. OK: nothing more is due, or the turn
# has had enough; else why the rest has to wait (NOT_READY, or the log's status).
cdef int deliver_clock(DelayService s, int32_t number, const TimerKey* bound, int32_t* messages,
                       int64_t* bytes) noexcept nogil
