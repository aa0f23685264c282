"""Pop answer: from a job to its reply.

    queues of the topic in turn, from one by chance, and of the group's retry topic, which is first
    in popFromRetryProbability percent of the pops and last in the others
        -> records from the group's offset on, as a pull looks at them (queue_entry_scan.pxd)
        -> a check point into the log (revive_log.pxd), the offset behind them
        -> reply: where the messages are (startOffsetInfo, msgOffsetInfo), and the records, without
           a copy; those of the retry topic are rewritten to the topic's name, with their POP_CK
    too large: a pop ends before a record that could not come again (larger than the log appends,
            or than a buffer for copies), and is refused, with its place, where it has nothing else
            to give: nothing is written or moved
    nothing: held until a message comes, the poll time is over (210), or a blocked queue is free
    damage: the queue gives nothing while it is mended from the log, nor until that is tried again
            when it failed for now; what the log has no whole record of is passed

The check points are in the log's file before the replies leave. An offset is moved in memory and
reaches consumerOffset.json later; after a kill in between the check points say it
(pop_journal.pxd). With SYNC_FLUSH a reply does not wait for the sync: after a power cut the
messages are given again at once, which no promise is against.
"""
from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService

# Of a job that is READY.
cdef void answer_pop(PopService s, PopJob* job) noexcept nogil
