"""Redirect: sends that are stored under another topic first: delayed, timed and half messages.

    DELAY=n (> 0)      SCHEDULE_TOPIC_XXXX, queue n - 1; the entry's tags code is the time it is due
    TIMER_..           rmq_sys_wheel_timer, queue 0, with TIMER_OUT_MS (timer.pxd); a message
                       that is due already goes to its own topic at once
    TRAN_MSG=true      RMQ_SYS_TRANS_HALF_TOPIC, queue 0, transaction bits of the sys flag cleared;
                       __transactionId__ is the UNIQ_KEY

All of them keep their destination in the properties REAL_TOPIC and REAL_QID, whatever the sender
had there; all other properties stay (schedule.pxd and transaction_end.pxd read the destination from
there). Timed messages are refused when they are due later than timerMaxDelaySec, or when they are
to delete another message and are due already. The stored size is measured, not guessed: properties
that become too long are TOO_LARGE, and those of a half message leave room for what is added until
its commit. A level above the highest counts as the highest; a delayed message's timer properties
are dropped, as in RocketMQ. A message that was consumed before (reconsume times > 0) and is marked
as both delayed and half is delayed.

Example: topic "t", queue 2, DELAY=3 -> SCHEDULE_TOPIC_XXXX queue 2 with DELAY=3, REAL_TOPIC=t,
REAL_QID=2; tags code = now + 10 000.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.flow.append.message_append cimport Appended, Message
from cext.flow.tables.topic_table cimport Topic
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.store.queues.consume_queue cimport Queue

# After append_message() said SPECIAL: stores the message where it has to wait. Returns what
# append_room and append_message return, or an AppendStatus (append_status.pxd).
# `committed`: a half message on its way to its topic; it may be delayed or timed, but not half
# again.
cdef int append_redirected(TransactionService s, Topic* topic, Queue* queue, Message* m,
                           bint committed,
                           Appended* out) noexcept nogil

cdef enum:
    # TIMER_OUT_MS, REAL_TOPIC and REAL_QID: three names, two numbers, a topic, six separators.
    TIMED_ADDS_MAX = 30 + 2 * 20 + 255 + 6

# The same for a message that the broker itself makes, and that is due at `due_ms`. It has `length`
# bytes of properties, which nobody need look through again, and TIMED_ADDS_MAX bytes of room behind
# them. The caller has set m.tags_code, for a message that is due already.
cdef int append_timed(TransactionService s, Topic* topic, Queue* queue, Message* m,
                      uint8_t* properties, uint32_t length, int64_t due_ms,
                      Appended* out) noexcept nogil
