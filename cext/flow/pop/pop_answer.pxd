"""Pop answer: from a job to its reply.

    queues of the topic one after the other, from a random one on, and of the group's retry topic,
    which is first in popFromRetryProbability percent of the pops and last in the others
        -> records from the group's offset on, filtered as for a pull (queue_entry_scan.pxd)
        -> a check point into the log (revive_log.pxd), the offset moves behind them
        -> reply: where the messages are (startOffsetInfo, msgOffsetInfo), and the records, without
           a copy; those of the retry topic are rewritten to the topic's name, with their POP_CK
    too large: a pop ends before a record that could not come again (larger than the log appends,
            or than a buffer for copies); when it has nothing else to give, it is refused with the
            record's place, and nothing is written or moved
    nothing: held until a message comes, the poll time is over (210), or a blocked queue is free
    damage: a queue gives nothing while it is repaired from the log, or, if that failed for now,
            until it is tried again; an entry without a whole record in the log is passed

The check points are in the log's file before the replies leave. An offset moves in memory and
reaches consumerOffset.json later; after a kill in between, it is read from the check points
(pop_journal.pxd). With SYNC_FLUSH a reply does not wait for the sync: after a power cut the
messages are given again at once, which breaks no promise.
"""
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService

# Answers a job that is READY.
cdef void answer_pop(PopService s, PopJob* job) noexcept nogil
