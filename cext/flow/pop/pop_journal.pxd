"""Pop journal: where groups that pop go on in their queues, read from the log's check points.

A pop moves its group's offset in memory; consumerOffset.json gets it within
flushConsumerOffsetInterval. The pop's check point says it too (POP_NEXT) and is in the log before
the messages leave, so after a kill what the file does not have yet is found here. Control asks at
its start, from the place in the log that the file names.

    {(topic, group, queue id): next offset}     the largest of each

A check point counts where the pop wrote it: as a timed message for the revive log, or in it when
its time was over at once. What the timer delivered or stored anew later (TIMER_ENQUEUE_MS) does
not: an operator may have reset the group's offset since.

Example: the file says 100; check points behind its mark say 132 and 164: the group goes on at 164.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

from cext.store.log.commit_log cimport CommitLog
from cext.store.log.record cimport RecordView
from cext.wire.revive_entry cimport ReviveEntry

# The record is a check point where its pop wrote it: its texts, borrowed from the record, and where
# the group goes on. Any thread.
cdef bint pop_of_record(const RecordView* view, const uint8_t* revive, uint32_t revive_bytes,
                        ReviveEntry* e, int64_t* following) noexcept nogil
# Any thread; may wait for the disk. Reads up to `end`, or to the first byte that is no record.
cdef dict popped_since(CommitLog log, bytes revive_topic, int64_t start, int64_t end)
