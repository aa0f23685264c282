"""Timer feed: from the queue of timed messages to the heaps: when each is due, and by which clock.

    TIMER_OUT_MS    as Apache RocketMQ writes it: the due time cut down to whole seconds
                    (timerPrecisionMs); the message is due in the second that follows
    tags code       of the queue's entry: the exact due time, if this broker stored the message and
                    the entry was not made anew since. Otherwise the due time is what the sender
                    asked for, counted from the record's store time, if it is within that second

A message that would wait longer than roll_ms is stored anew before it is due (TIMER_ROLL_TIMES), so
that its log file does not become too old to be kept. As Apache does it, this happens at the end of
the window, or in its middle when less than a third of a window would be left then.

Feeding waits for an entry that cannot be read for now or is being made anew; what is behind it is
fed later, too. What is lost for good is passed with a line in the log.

Example: stored 12:00:00.123 with TIMER_DELAY_SEC=10 and TIMER_OUT_MS=12:00:10.000, tags code 65
(made anew): asked for 12:00:10.123, which is within (10.000, 11.000]: due then.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.flow.delay.delay_service cimport DelayService
from cext.store.log.record cimport RecordView
from cext.wire.properties cimport SendProperties

cdef enum:
    FEED_MAX = 4096                 # messages of one turn

# Feeds what is new, until the heaps are full. Returns whether more could be fed at once.
cdef bint timer_feed(DelayService s) noexcept nogil
# When a stored message is due, by the wall clock of the time it was stored; False when it has no
# due time. `relative`: it was sent with a delay, not with a time.
cdef bint timer_due(const RecordView* view, const SendProperties* found, int64_t tags_code,
                    int64_t* due_ms, bint* relative) noexcept nogil
# Parses the record. False: it is no timed message.
cdef bint timer_parse(DelayService s, const uint8_t* at, int64_t offset, int32_t size, bint checked,
                      RecordView* view, SendProperties* found) noexcept nogil
