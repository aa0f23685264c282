"""Entries of timed messages in memory. See timer_heap.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset

from cext.base.status cimport OK, POOL_EMPTY

cdef enum:
    SAMPLE = 255


cdef int timer_heap_open(TimerHeap* heap, int64_t capacity) noexcept nogil:
    memset(heap, 0, sizeof(TimerHeap))
    heap.entries = <TimerEntry*> malloc(capacity * sizeof(TimerEntry))
    if heap.entries == NULL:
        return POOL_EMPTY
    heap.capacity = capacity
    return OK


cdef void timer_heap_close(TimerHeap* heap) noexcept nogil:
    free(heap.entries)
    heap.entries = NULL
    heap.count = heap.capacity = 0


cdef void timer_heap_push(TimerHeap* heap, const TimerEntry* entry) noexcept nogil:
    cdef TimerEntry* entries = heap.entries
    cdef int64_t at = heap.count
    cdef int64_t parent
    heap.count += 1
    while at > 0:
        parent = (at - 1) >> 2
        if not key_before(&entry.key, &entries[parent].key):
            break
        entries[at] = entries[parent]
        at = parent
    entries[at] = entry[0]


cdef inline void sink(TimerEntry* entries, int64_t count, int64_t at,
                      TimerEntry entry) noexcept nogil:
    """Puts the entry where it belongs, at `at` or below."""
    cdef int64_t child, last, best
    while True:
        child = 4 * at + 1
        if child >= count:
            break
        last = child + 4 if child + 4 < count else count
        best = child
        child += 1
        while child < last:
            if key_before(&entries[child].key, &entries[best].key):
                best = child
            child += 1
        if not key_before(&entries[best].key, &entry.key):
            break
        entries[at] = entries[best]
        at = best
    entries[at] = entry


cdef void timer_heap_pop(TimerHeap* heap) noexcept nogil:
    heap.count -= 1
    if heap.count > 0:
        sink(heap.entries, heap.count, 0, heap.entries[heap.count])


cdef int compare(const void* a, const void* b) noexcept nogil:
    cdef const TimerEntry* one = <const TimerEntry*> a
    cdef const TimerEntry* other = <const TimerEntry*> b
    if key_before(&one.key, &other.key):
        return -1
    return 0 if key_same(&one.key, &other.key) else 1


cdef void timer_sort(TimerEntry* entries, int64_t count) noexcept nogil:
    qsort(entries, count, sizeof(TimerEntry), &compare)


cdef TimerKey timer_heap_trim(TimerHeap* heap, int64_t keep) noexcept nogil:
    cdef TimerEntry sample[SAMPLE]
    cdef TimerEntry* entries = heap.entries
    cdef TimerKey least, limit
    cdef int64_t i, kept = 0
    least.due_ms = TIMER_NEVER
    least.place = 0
    if heap.count <= keep:
        return least
    for i in range(SAMPLE):
        sample[i] = entries[i * heap.count // SAMPLE]
    timer_sort(sample, SAMPLE)
    limit = sample[SAMPLE * keep // heap.count].key
    for i in range(heap.count):
        if key_before(&entries[i].key, &limit):
            entries[kept] = entries[i]
            kept += 1
        elif key_before(&entries[i].key, &least):
            least = entries[i].key
    heap.count = kept
    i = (kept - 2) >> 2
    while i >= 0:
        sink(entries, kept, i, entries[i])
        i -= 1
    return least
