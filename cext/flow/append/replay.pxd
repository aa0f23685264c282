"""Replay: records that dispatch has no list entry for are dispatched from their bytes in the log.

The list of appended records is dispatch's fast path: it holds what this process appended. What came
as raw bytes (cext/store/log/raw_append.pxd) is in no list; what the list says of a record is then
read from the record: its queue, its size, its tags code.

    the record's place in its queue     what is done
    where the queue ends                an entry
    below                               the topic was deleted and made anew: the queue begins anew
    above, the queue is empty           the queue starts there
    above                               blanks up to there: the log lacks records

A queue that nobody knows is made, as at a start; half messages that were rolled back get no entry.

A size beyond max_record_bytes is damage, too: what is replayed came into the log since the start,
by reserve() or raw_append(), and both refuse more. A larger record that was there before, of
another broker or of a time with a larger rmqRingBytes, was dispatched by recovery.

Bytes that are no record are passed over, up to the next that are one of their own offset or to the
end of the segment, and the log says so: what recovery does with them. The queue entries of what
stood there become blanks.

Bytes come from the tail ring or the page cache; what is in neither is read where it is needed, a
record at a time: a replica follows so closely that this is seldom.

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

# The record's entry at the end of its queue, and the news of it. OK, or why its queue has no room:
# then nothing was done (queue_store.pxd).
cdef inline int dispatch_entry(Appender s, const Dispatch* d) noexcept nogil:
    cdef int status = s.queues.append(d.queue, d.physical_offset, d.size, d.tags_code)
    if status == OK:
        dispatch_arrival(s, d)
    return status

# From marks.dispatched, which moves, up to `end`. OK: all of it. NOT_READY: some of it.
cdef int replay(Appender s, int64_t end) noexcept nogil

# The queue goes, with its files; who waits at it is woken. `topic`: its own, NULL where that is in
# no table.
cdef void drop_queue(Appender s, Topic* topic, Queue* queue) noexcept nogil

# How far dispatch may go.
cdef inline int64_t dispatch_limit(Appender s) noexcept nogil:
    return min(s.log.marks.written, s.log.marks.visible)

# There is more to be replayed: the turn had better not sleep.
cdef inline bint replay_waits(Appender s) noexcept nogil:
    return s.dispatch_count == 0 and s.log.marks.dispatched < dispatch_limit(s)
