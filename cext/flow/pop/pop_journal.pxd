"""Pop journal: where groups that pop go on in their queues, read from the log's check points.

A pop moves its group's offset in memory; consumerOffset.json gets it within
flushConsumerOffsetInterval. The pop's check point holds it too (POP_NEXT) and is in the log before
the messages leave; so after a kill, offsets that the file does not have yet are found here. Control
asks at its start, from the place in the log that the file names.

    {(topic, group, queue id): next offset}     the largest of each

A check point counts only where the pop wrote it: as a timed message for the revive log, or in the
revive log itself when its time was over at once. Copies that the timer delivered or stored anew
later (TIMER_ENQUEUE_MS) do not count, because an operator may have reset the group's offset since.

Example: the file says 100; check points behind its mark say 132 and 164: the group goes on at 164.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.store.log.commit_log cimport CommitLog
from cext.store.log.record cimport RecordView
from cext.wire.revive_entry cimport ReviveEntry

# Whether the record is a check point where its pop wrote it. Sets its texts, borrowed from the
# record, and the offset at which the group goes on. Any thread.
cdef bint pop_of_record(const RecordView* view, const uint8_t* revive, uint32_t revive_bytes,
                        ReviveEntry* e, int64_t* following) noexcept nogil
# Any thread; may wait for the disk. Reads up to `end`, or to the first bytes that are no record.
cdef dict popped_since(CommitLog log, bytes revive_topic, int64_t start, int64_t end)
