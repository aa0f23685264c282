"""Replay: records that dispatch has no list entry for are dispatched from their bytes in the log.

The list of appended records is dispatch's fast path: it holds what this process appended. What came
as raw bytes (cext/store/log/raw_append.pxd) is in no list, so what the list would say of a record
(its queue, its size, its tags code) is read from the record itself.

    the record's place in its queue     what is done
    at the queue's end                  an entry is added
    below the end                       the topic was deleted and made anew: so is the queue
    above, the queue is empty           the queue starts at this place
    above the end                       blanks fill the gap: the log lacks records

A queue that is not known is made, as at a start; half messages that were rolled back get no entry.

A size beyond max_record_bytes is damage, too: what is replayed came into the log since the start,
by reserve() or raw_append(), and both refuse larger records. Larger ones that were there before,
written by another broker or with a larger rmqRingBytes, were dispatched by recovery.

Bytes that are no record are passed over, as in recovery, up to the next record that lies at its own
offset or to the end of the segment, and the log says so. The queue entries of the lost records
become blanks.

Bytes come from the tail ring or the page cache. What is in neither is read from the disk here, a
record at a time; a replica follows so closely that this is seldom.

Example: dispatched = 1000, written = 1400, the list is empty: the records at 1000, 1150 and 1290
get their entries, dispatched = 1400.
"""
from libc.stdint cimport int64_t

from cext.base.status cimport OK
from cext.flow.append.appender cimport Appender, Dispatch
from cext.flow.append.dispatch_hook cimport dispatch_arrival
from cext.flow.tables.topic_table cimport Topic
from cext.store.queues.consume_queue cimport Queue

cdef enum:
    REPLAY_BYTES_MAX = 4 << 20      # of one call; the rest follows in the next

# Adds the record's entry to its queue and tells those who wait for it. OK; or why its queue has no
# room, and then nothing was done (queue_store.pxd).
cdef inline int dispatch_entry(Appender s, const Dispatch* d) noexcept nogil:
    cdef int status = s.queues.append(d.queue, d.physical_offset, d.size, d.tags_code)
    if status == OK:
        dispatch_arrival(s, d)
    return status

# Replays from marks.dispatched, which moves, up to `end`. OK: all of it. NOT_READY: some of it.
cdef int replay(Appender s, int64_t end) noexcept nogil

# Removes the queue with its files and wakes clients that wait at it. `topic`: the queue's topic, or
# NULL when that is in no table.
cdef void drop_queue(Appender s, Topic* topic, Queue* queue) noexcept nogil

# How far dispatch may go.
cdef inline int64_t dispatch_limit(Appender s) noexcept nogil:
    return min(s.log.marks.written, s.log.marks.visible)

# Whether there is more to replay: then the turn had better not sleep.
cdef inline bint replay_waits(Appender s) noexcept nogil:
    return s.dispatch_count == 0 and s.log.marks.dispatched < dispatch_limit(s)
