"""Timer heap: entries of timed messages in memory, smallest due time first.

An entry says when a message is due and where its record is in the commit log. Entries are in the
order of their keys, (due_ms, place): no two messages have the same key, deletions of a millisecond
come before its messages, and messages due in the same millisecond are in the order of the log. An
entry that is in a heap twice comes out twice in a row, and the reader drops the second.

Example: messages stored at 400 and 900 both due at 10: keys (10, 400 | TIMER_MESSAGE) and (10, 900
| TIMER_MESSAGE); a deletion stored at 1300 and due at 10 has the key (10, 1300), the smallest.

A node of the heap has four children; pushing an entry later than all others takes one comparison.
One thread.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

cdef enum:
    TIMER_ENTRY_BYTES = 24
    RECALL_MS = 1000            # a deletion counts for messages due until so much later
    TIMER_ROLL = 1              # a flag: the message is stored anew at due_ms, not delivered
    TIMER_FRESH = 4             # a flag: the entry is in no file yet

cdef extern from *:
    """
    #define RMQ_TIMER_MESSAGE ((int64_t) 1 << 62)
    #define RMQ_TIMER_NEVER INT64_MAX
    """
    const int64_t TIMER_MESSAGE "RMQ_TIMER_MESSAGE"     # a bit of place: a message, no deletion
    const int64_t TIMER_NEVER "RMQ_TIMER_NEVER"

cdef struct TimerKey:
    int64_t due_ms
    int64_t place

cdef struct TimerEntry:
    TimerKey key
    int32_t size                # bytes of the record
    uint32_t flags              # in a file it also has a checksum: timer_run.pxd

cdef struct TimerHeap:
    TimerEntry* entries         # owned
    int64_t count
    int64_t capacity

cdef inline bint key_before(const TimerKey* a, const TimerKey* b) noexcept nogil:
    return a.due_ms < b.due_ms or (a.due_ms == b.due_ms and a.place < b.place)

cdef inline bint key_same(const TimerKey* a, const TimerKey* b) noexcept nogil:
    return a.due_ms == b.due_ms and a.place == b.place

# Log offset of the entry's record.
cdef inline int64_t timer_offset(const TimerEntry* entry) noexcept nogil:
    return entry.key.place & ~TIMER_MESSAGE

cdef int timer_heap_open(TimerHeap* heap, int64_t capacity) noexcept nogil     # OK | POOL_EMPTY
cdef void timer_heap_close(TimerHeap* heap) noexcept nogil
# Adds an entry. The caller has checked that count < capacity.
cdef void timer_heap_push(TimerHeap* heap, const TimerEntry* entry) noexcept nogil
# Removes the smallest entry, which is entries[0]. The caller has checked that count > 0.
cdef void timer_heap_pop(TimerHeap* heap) noexcept nogil
# Keeps about the `keep` smallest entries, estimated from a sample. Returns the smallest key that
# was dropped, so all entries below it are kept; (TIMER_NEVER, 0): none was dropped.
cdef TimerKey timer_heap_trim(TimerHeap* heap, int64_t keep) noexcept nogil
# Sorts entries by key.
cdef void timer_sort(TimerEntry* entries, int64_t count) noexcept nogil
