"""SPSC ring: hands pointers from one thread to one other, without a lock.

The pushing thread owns `tail`, the popping thread owns `head`; each is on a cache line of its own.
Each side keeps a copy of the other's counter, so that it reads the other's cache line only when
its copy says full (or empty). A push is a store with release order, a pop is a load with acquire
order: everything that the pushing thread wrote before the push is seen after the pop.

Each side may note its thread (spsc_own_push, spsc_own_pop): a debug build then ends the process
when another thread pushes or pops.

Example: capacity 8, tail 11, head 9: two pointers wait, in slots 9 & 7 = 1 and 10 & 7 = 2.
"""
from libc.stdint cimport int32_t, uint64_t, uint8_t

from cext.memory.arena cimport Arena

cdef struct SpscRing:
    void** slots            # capacity pointers; owned, unless `borrowed`
    uint64_t mask           # capacity - 1; capacity is a power of two
    bint borrowed           # the slots belong to an arena
    uint8_t pad0[44]
    uint64_t tail           # pushes so far; written by the pushing thread only
    uint64_t head_seen      # the pushing thread's copy of head
    int32_t pusher          # thread_owner.pxd
    uint8_t pad1[44]
    uint64_t head           # pops so far; written by the popping thread only
    uint64_t tail_seen      # the popping thread's copy of tail
    int32_t popper          # thread_owner.pxd
    uint8_t pad2[44]

cdef int spsc_open(SpscRing* ring, uint64_t capacity) noexcept nogil    # OK | IO_ERROR
# The same with slots from an arena, of which it takes spsc_arena_bytes(capacity).
cdef int spsc_open_in(SpscRing* ring, Arena* arena, uint64_t capacity) noexcept nogil
cdef uint64_t spsc_arena_bytes(uint64_t capacity) noexcept nogil
# From now on only this thread pushes (or pops); with False, any thread may.
cdef void spsc_own_push(SpscRing* ring, bint mine) noexcept nogil
cdef void spsc_own_pop(SpscRing* ring, bint mine) noexcept nogil
cdef void spsc_close(SpscRing* ring) noexcept nogil
cdef bint spsc_push(SpscRing* ring, void* item) noexcept nogil           # False: full
# The same for a ring that cannot be full, since no more pointers are under way than it has slots. A
# full ring ends the process with `text`.
cdef void spsc_put(SpscRing* ring, void* item, const char* text) noexcept nogil
cdef void* spsc_pop(SpscRing* ring) noexcept nogil                       # NULL: empty
cdef void* spsc_first(SpscRing* ring) noexcept nogil   # what spsc_pop() would return; it stays in
cdef uint64_t spsc_waiting(SpscRing* ring) noexcept nogil                # pushing thread only
cdef bint spsc_is_empty(SpscRing* ring) noexcept nogil                   # popping thread only
