"""Revive: what was popped and not acknowledged in time comes again, from the retry topic.

    read     check points and acks, as the timer puts them into the revive log; a check point waits
             in a ring of its queue, about a second long, and its acks mark what is done
    revive   by time (revive_ring): once its time is over, and all is read that the timer delivered
             up to it, what is not marked is appended to %RETRY%group_topic, reconsume times + 1,
             1ST_POP_TIME kept
    commit   what is done with, for group CID_RMQ_SYS_REVIVE_GROUP, as RocketMQ keeps it

Exact where RocketMQ guesses: the timers say up to when all is delivered, so nothing is revived too
early for an ack that came in time, and nothing waits for a margin of seconds. After a kill the log
is read again from the last commit that reached its file: what came again before has an ack of its
own behind it (revive_log.pxd), in the same write. The timer may have delivered a check point before
a kill and deliver it again behind it, and its acks only then: both are one.

While a ring is full (CHECK_POINTS_MAX) its queue is not read on. A check point of it whose time is
over is then revived although acks of it may stand in what was not read (hurried): its messages may
come again acknowledged. One whose time is not over waits as ever.

What lies in a topic or belongs to a group that is gone is dropped, and so is a record that is
damaged. For one that the disk does not give just now, or whose queue entry cannot be made anew for
now, its revive queue waits, and no other (readahead.pxd).

Example: pop at 12:00:00 with 60 s: the check point is in the revive log at 12:00:59, its acks at
12:01:00.000; at 12:01:00.001 what is not acknowledged is in the retry topic.
"""
from cext.flow.context.step cimport Step
from cext.flow.pop.pop_service cimport PopService
from cext.store.log.record cimport RecordView

# After the turn's write and what timers do then. The poll sleeps until a check point is over.
cdef Step revive_step(PopService s) noexcept
# Whether a record of %RETRY%a_b came again, as pops of group a have it, and was not sent there by
# group a_b: that has no 1ST_POP_TIME, or says by RETRY_TOPIC that it was sent back.
cdef bint has_come_again(const RecordView* view) noexcept nogil
