"""Pull batch: the messages of one answer, gathered from the queue's entries.

    queue entries -> tag filter -> records in the tail ring or the page cache -> answer_found
    not in memory -> a disk fetch (cext/flow/fetch) of the entries, then of the records
                     (a record larger than any buffer comes alone, into a block of its own)
                  -> compared with the entries, filtered by their properties -> answer_fetched
    none passes   -> the next records, in this turn or a later one, within the bounds of a scan
"""
from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService

# Answers a READY pull, holds it or hands it to a disk reader.
cdef void answer_pull(PullService s, PullJob* job) noexcept nogil
