"""Schedule: delivery of delayed messages, from SCHEDULE_TOPIC_XXXX to where they were meant to go.

    a level's first waiting entry is due -> its record, from memory or by a disk reader
        -> the same body, properties, flags, born fields and reconsume times are appended to
           REAL_TOPIC, queue REAL_QID, in the turn's own write
        -> the level's next_offset moves on

DELAY, REAL_TOPIC and REAL_QID stay in the stored properties, as Apache RocketMQ leaves them; the
entry's tags code is that of TAGS again. Nothing is delayed twice: what is delivered goes past the
checks of sends.

Each turn delivers at most DELIVER_MAX messages and DELIVER_BYTES_MAX bytes, so that a million due
at once delay a send by a fraction of a millisecond; then the turn goes on with sends and pulls and
the rest follows in the next. The poll sleeps exactly until the first message is due.

After a crash what was delivered since control wrote delayOffset.json is delivered once more: at
least once, nothing lost. A record that is damaged or gone is passed with a line in the log; for one
that the disk does not give just now, or whose queue entry is damaged and cannot be made anew for
now, its level waits, and no other (readahead.pxd). A missing topic is made by control (WANT_TOPIC);
its level waits for it.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.step cimport Step
from cext.flow.delay.delay_service cimport DelayService

# Sets the levels: delays in ms and the offset where each goes on. OK | TOO_LARGE (too many).
cdef int schedule_open(DelayService s, const int64_t* delays_ms, const int64_t* offsets,
                       int32_t count) noexcept nogil
# First thing of a turn: reads its wall clock, and sees whether that was set since the last one. The
# clock that delays are counted by is the one that stored times come from.
cdef Step clock_step(DelayService s) noexcept
# Before the turn's write: appends what is due. The poll sleeps until the next message is.
cdef Step schedule_step(DelayService s) noexcept
# When the entry is due, on the turn's clock (ms); for tests of clock jumps it stands alone.
cdef int64_t due_ms(DelayService s, int32_t level, int64_t offset, int64_t tags_code,
                    int64_t end_offset) noexcept nogil
