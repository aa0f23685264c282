"""A ring of pointers between two threads. See spsc_ring.pxd."""
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.base.atomics cimport load_acquire_u64, store_release_u64
from cext.base.check cimport check, debug_check
from cext.base.thread_owner cimport thread_check, thread_clear, thread_note
from cext.memory.arena cimport arena_page_bytes, arena_take_pages


cdef inline uint64_t slots_of(uint64_t capacity) noexcept nogil:
    cdef uint64_t size = 8
    while size < capacity:
        size *= 2
    return size


cdef int spsc_open(SpscRing* ring, uint64_t capacity) noexcept nogil:
    cdef uint64_t size = slots_of(capacity)
    memset(ring, 0, sizeof(SpscRing))
    ring.slots = <void**> calloc(size, sizeof(void*))
    if ring.slots == NULL:
        return -5
    ring.mask = size - 1
    return 0


cdef uint64_t spsc_arena_bytes(uint64_t capacity) noexcept nogil:
    return arena_page_bytes(slots_of(capacity) * sizeof(void*))


cdef int spsc_open_in(SpscRing* ring, Arena* arena, uint64_t capacity) noexcept nogil:
    memset(ring, 0, sizeof(SpscRing))
    ring.slots = <void**> arena_take_pages(arena, slots_of(capacity) * sizeof(void*))
    if ring.slots == NULL:
        return -5
    ring.borrowed = True
    ring.mask = slots_of(capacity) - 1
    return 0


cdef void spsc_own_push(SpscRing* ring, bint mine) noexcept nogil:
    if mine:
        thread_note(&ring.pusher)
    else:
        thread_clear(&ring.pusher)


cdef void spsc_own_pop(SpscRing* ring, bint mine) noexcept nogil:
    if mine:
        thread_note(&ring.popper)
    else:
        thread_clear(&ring.popper)


cdef void spsc_close(SpscRing* ring) noexcept nogil:
    if not ring.borrowed:
        free(ring.slots)
    memset(ring, 0, sizeof(SpscRing))


cdef bint spsc_push(SpscRing* ring, void* item) noexcept nogil:
    cdef uint64_t tail = ring.tail
    thread_check(&ring.pusher, b"a ring: its one pushing thread pushes")
    debug_check(item != NULL, b"a ring: what is pushed is something", tail, ring.mask + 1)
    debug_check(tail - ring.head_seen <= ring.mask + 1,
                b"a ring: no more waits than it has slots", tail, ring.head_seen)
    if tail - ring.head_seen > ring.mask:
        ring.head_seen = load_acquire_u64(&ring.head)
        check(tail - ring.head_seen <= ring.mask + 1,
              b"a ring: no more is popped than was pushed", tail, ring.head_seen)
        if tail - ring.head_seen > ring.mask:
            return False
    ring.slots[tail & ring.mask] = item
    store_release_u64(&ring.tail, tail + 1)
    return True


cdef void spsc_put(SpscRing* ring, void* item, const char* text) noexcept nogil:
    check(spsc_push(ring, item), text, ring.tail, ring.mask + 1)


cdef void* spsc_first(SpscRing* ring) noexcept nogil:
    thread_check(&ring.popper, b"a ring: its one popping thread looks")
    return NULL if spsc_is_empty(ring) else ring.slots[ring.head & ring.mask]


cdef void* spsc_pop(SpscRing* ring) noexcept nogil:
    cdef uint64_t head = ring.head
    thread_check(&ring.popper, b"a ring: its one popping thread pops")
    if head == ring.tail_seen:
        ring.tail_seen = load_acquire_u64(&ring.tail)
        if head == ring.tail_seen:
            return NULL
    check(ring.tail_seen - head <= ring.mask + 1,
          b"a ring: no more waits than it has slots", ring.tail_seen, head)
    cdef void* item = ring.slots[head & ring.mask]
    store_release_u64(&ring.head, head + 1)
    return item


cdef uint64_t spsc_waiting(SpscRing* ring) noexcept nogil:
    return ring.tail - load_acquire_u64(&ring.head)


cdef bint spsc_is_empty(SpscRing* ring) noexcept nogil:
    return ring.head == load_acquire_u64(&ring.tail)
