"""Revive: messages popped and not acknowledged in time come again, from the retry topic.

    read     check points and acks, as the timer puts them into the revive log; a check point waits
             in the ring of its queue for about a second, and its acks mark its messages as done
    revive   by time (revive_ring): once its time is over, and everything is read that the timer
             delivered up to then, unmarked messages are appended to %RETRY%group_topic, reconsume
             times + 1, 1ST_POP_TIME kept
    commit   how far all is done, for group CID_RMQ_SYS_REVIVE_GROUP, as RocketMQ keeps it

This is exact where RocketMQ guesses: the timers say up to when everything is delivered. So nothing
is revived too early when its ack came in time, and nothing waits for a margin of seconds. After a
kill the log is read again from the last commit that reached its file; a message that came again
before the kill has an ack of its own after it (revive_log.pxd), in the same write. A check point
that the timer delivered before the kill may be delivered again after it, and its acks only then:
the two copies count as one check point.

While a ring is full (CHECK_POINTS_MAX) no more is read from its queue. A check point in it whose
time is over is then revived although acks of it may be in the unread part (hurried): its messages
may come again although they were acknowledged. One whose time is not over waits as usual.

A message whose topic or group is gone is dropped, and so is a damaged record. When the disk does
not give a record just now, or its queue entry cannot be made anew for now, its revive queue waits,
and no other (readahead.pxd).

Example: pop at 12:00:00 with 60 s: the check point is in the revive log at 12:00:59, its acks at
12:01:00.000; at 12:01:00.001 messages not acknowledged are in the retry topic.
"""
from cext.flow.context.step cimport Step
from cext.flow.pop.pop_service cimport PopService
from cext.store.log.record cimport RecordView

# After the turn's write and what timers do then. The poll sleeps until a check point is due.
cdef Step revive_step(PopService s) noexcept
# Whether a record of %RETRY%a_b came again after a pop of group a. If not, group a_b sent it there:
# such a record has no 1ST_POP_TIME, or has a RETRY_TOPIC that says that it was sent back.
cdef bint has_come_again(const RecordView* view) noexcept nogil
