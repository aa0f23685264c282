"""Schedule: delivery of delayed messages, from SCHEDULE_TOPIC_XXXX to where they were meant to go.

    a level's first waiting entry is due -> its record, from memory or by a disk reader
        -> the same body, properties, flags, born fields and reconsume times are appended to
           REAL_TOPIC, queue REAL_QID, in the turn's own write
        -> the level's next_offset moves on

DELAY, REAL_TOPIC and REAL_QID stay in the stored properties, as Apache RocketMQ leaves them; the
entry's tags code is that of TAGS again. Nothing is delayed twice, because a delivery does not go
through the checks of sends.

Each turn delivers at most DELIVER_MAX messages and DELIVER_BYTES_MAX bytes, so that a million
messages due at once delay a send by a fraction of a millisecond; then the turn goes on with sends
and pulls, and the rest follows in the next turn. The poll sleeps exactly until the first message is
due.

After a crash, messages delivered since control last wrote delayOffset.json are delivered once more:
at least once, nothing lost. A record that is damaged or gone is passed with a line in the log. When
the disk does not give a record just now, or its queue entry is damaged and cannot be made anew for
now, its level waits, and no other (readahead.pxd). Control makes a missing topic (WANT_TOPIC);
the level waits for it.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.step cimport Step
from cext.flow.delay.delay_service cimport DelayService

# Sets the levels: delays in ms, and the offset at which each goes on. OK | TOO_LARGE (too many).
cdef int schedule_open(DelayService s, const int64_t* delays_ms, const int64_t* offsets,
                       int32_t count) noexcept nogil
# First thing of a turn: reads the turn's wall clock and sees whether it was set since the turn
# before. Delays are counted by the same clock that stored times come from.
cdef Step clock_step(DelayService s) noexcept
# Before the turn's write: appends what is due. The poll sleeps until the next message is due.
cdef Step schedule_step(DelayService s) noexcept
# When the entry is due, by the turn's clock (ms).
cdef int64_t due_ms(DelayService s, int32_t level, int64_t offset, int64_t tags_code,
                    int64_t end_offset) noexcept nogil
