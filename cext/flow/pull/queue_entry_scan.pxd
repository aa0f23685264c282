"""Queue entry scan: which entries of a queue pass a pull's filter, and their records.

    tags      by the code in the queue entry; the record is not touched
    SQL92     the record's properties are read where they lie and the program is run over them

What filters cost is bounded twice. A pull that has looked at SCAN_ENTRIES_MAX entries without
filling its reply is answered with what it has, and the client's next request goes on from there.
And all pulls of a turn together may spend SCAN_COST_OF_TURN (an entry costs 1, a record 16): pulls
that come later go on in the next turn, so a filter that skips millions never holds up sends.

An entry whose tag code is below the range of codes comes from a store that Apache RocketMQ wrote
with enableConsumeQueueExt: it points into another file. Its tag is read from the record instead.

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService
from cext.store.log.record cimport RecordView
from cext.store.queues.consume_queue cimport Queue

cdef enum:
    FOUND_MAX = 1024                # records of one reply, whatever is configured
    SCAN_ENTRIES_MAX = 16384        # entries looked at per pull
    SCAN_COST_OF_TURN = 32768       # what all filters of a turn may cost
    RECORD_COST = 16                # of looking at a record's properties; an entry costs 1

cdef struct Found:                  # what one look into a queue brought
    int32_t count
    uint64_t bytes
    int64_t bytes_limit
    int64_t record_max
    int64_t next_offset
    int64_t absent_offset           # first record not in memory or above record_max, or -1
    int64_t large_bytes             # size of that record if above record_max; else 0
    int64_t corrupt_offset          # first damaged record, or -1
    int64_t corrupt_physical
    int64_t corrupt_reason
    bint unfinished                 # the turn's cost is spent: go on in the next one
    const uint8_t* at[FOUND_MAX]
    uint32_t sizes[FOUND_MAX]

cdef inline bint is_filtered(const PullJob* job) noexcept nogil:
    return not job.tags.all or job.sql != NULL

# Collects records for one reply, until one is larger than `record_max` bytes; OK, ABSENT (queue
# entries not in memory) or a failure.
cdef int scan_entries(PullService s, PullJob* job, Queue* queue, int64_t record_max,
                      Found* found) noexcept nogil
# Whether the message passes the filter, by its own tag and properties.
cdef bint record_passes(PullService s, PullJob* job, const RecordView* view) noexcept nogil
# Whether a record that was just written passes; given the offset and size of its record in the log.
cdef bint arrival_passes(PullService s, PullJob* job, int64_t code, int64_t physical_offset,
                         int32_t size) noexcept nogil
# Whether the record is the one that the job's queue holds at this offset.
cdef bint is_of_queue(const RecordView* view, const PullJob* job, int64_t offset) noexcept nogil
