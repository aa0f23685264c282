"""Broken invariant: one of each kind, broken on purpose, for the test that sees the process end.

    plant("ring")       does not return: one line on standard error, then abort()

Checks of debug builds are made here in every build if the function is an inline one; what lies in a
module is checked as that module was built. Invariants of the store and of what is above it are in
broken_store.pyx, broken_flow.pyx and broken_requests.pyx.
"""
cdef extern from *:
    """
    #ifndef RMQ_DEBUG
    #define RMQ_DEBUG 1
    #endif
    """

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from cext.base.state cimport state_move
from cext.base.status cimport OK
from cext.base.thread_owner cimport thread_check, thread_note
from cext.base.watermark cimport watermark_move
from cext.memory.arena cimport SharedArena, arena_take
from cext.memory.buffer_pool cimport (
    BufferPool,
    buffer_pool_open,
    buffer_pool_own,
    buffer_pool_release,
    buffer_pool_arena_bytes,
    buffer_pool_take,
    buffer_pool_trim,
)
from cext.memory.chain cimport ChainEntry, chain_join, chain_leave
from cext.memory.spsc_ring cimport SpscRing, spsc_open, spsc_pop, spsc_push, spsc_put

import threading

from cext.testing import broken_flow, broken_requests, broken_store


@cython.no_gc_clear                  # its owners are freed first and may use it
cdef class Pool:
    cdef SharedArena memory
    cdef BufferPool pool

    def __cinit__(self):
        self.memory = SharedArena(buffer_pool_arena_bytes(64, 4))
        if buffer_pool_open(&self.pool, &self.memory.arena, 64, 4, 0) != OK:
            raise MemoryError("the arena is smaller than the pool's room")

    def own(self):
        buffer_pool_own(&self.pool, True)


def _watermark():
    cdef int64_t mark = 10
    watermark_move(&mark, 12, b"a mark never moves back")
    watermark_move(&mark, 9, b"a mark never moves back")


def _state():
    cdef int32_t state = 0
    state_move(&state, 1, 1 << 0, b"from 0 to 1")
    state_move(&state, 2, 1 << 0, b"to 2 from 0 alone")


def _ring():
    cdef SpscRing ring
    cdef int _i
    if spsc_open(&ring, 8) != 0:
        raise MemoryError("no memory for the ring")
    for _i in range(9):
        spsc_put(&ring, &ring, b"a ring of 8")


def _ring_head():
    """More was popped than was pushed."""
    cdef SpscRing ring
    spsc_open(&ring, 8)
    ring.tail = 8
    ring.head = 20
    spsc_push(&ring, &ring)


def _ring_tail():
    """More was pushed than the ring has slots."""
    cdef SpscRing ring
    spsc_open(&ring, 8)
    ring.tail = 9
    spsc_pop(&ring)


def _ring_nothing():
    """Seen only by debug builds: NULL is pushed, which is what an empty ring gives."""
    cdef SpscRing ring
    spsc_open(&ring, 8)
    spsc_push(&ring, NULL)


def _arena():
    cdef SharedArena memory = SharedArena(4096)
    memory.arena.used = 5000
    arena_take(&memory.arena, 64, 64)


def _pool_sum():
    """A buffer is neither free nor in use."""
    cdef Pool pool = Pool()
    buffer_pool_take(&pool.pool)
    buffer_pool_release(&pool.pool, buffer_pool_take(&pool.pool))
    pool.pool.in_use = 0
    buffer_pool_trim(&pool.pool, 4)


def _pool_in_use():
    """Seen only by debug builds: more buffers are in use than were ever taken."""
    cdef Pool pool = Pool()
    pool.pool.in_use = 3
    buffer_pool_take(&pool.pool)


def _release():
    cdef Pool pool = Pool()
    cdef void* buffer = buffer_pool_take(&pool.pool)
    buffer_pool_release(&pool.pool, buffer)
    buffer_pool_release(&pool.pool, buffer)


def _release_of_two():
    """Seen only by debug builds: one of two buffers is released twice; the count is right."""
    cdef Pool pool = Pool()
    cdef void* buffer = buffer_pool_take(&pool.pool)
    buffer_pool_take(&pool.pool)
    buffer_pool_release(&pool.pool, buffer)
    buffer_pool_release(&pool.pool, buffer)


def _thread():
    cdef int32_t owner = 0
    thread_note(&owner)
    owner += 1                              # as if another thread had it
    thread_check(&owner, b"its thread alone")


def _pool_thread():
    """Seen only by debug builds."""
    cdef Pool pool = Pool()
    other = threading.Thread(target=pool.own)
    other.start()
    other.join()
    buffer_pool_take(&pool.pool)


def _chain():
    cdef ChainEntry* first = NULL
    cdef ChainEntry one, other
    memset(&one, 0, sizeof(one))
    memset(&other, 0, sizeof(other))
    chain_join(&first, &one, &one)
    other.previous = &one                   # but `one` knows nothing of it
    chain_leave(&first, &other)


def _chain_end():
    """The last entry has another one after it, from a list that it was in before."""
    cdef ChainEntry* first = NULL
    cdef ChainEntry one, other
    memset(&one, 0, sizeof(one))
    memset(&other, 0, sizeof(other))
    chain_join(&first, &one, &one)
    one.next = &other
    chain_join(&first, &other, &other)


PLANTS = {
    "watermark": _watermark, "state": _state, "ring": _ring, "ring_head": _ring_head,
    "ring_tail": _ring_tail, "ring_nothing": _ring_nothing, "arena": _arena,
    "pool_sum": _pool_sum, "pool_in_use": _pool_in_use, "pool_thread": _pool_thread,
    "release": _release, "release_of_two": _release_of_two, "thread": _thread, "chain": _chain,
    "chain_end": _chain_end, **broken_store.PLANTS, **broken_flow.PLANTS,
    **broken_requests.PLANTS,
}


def plant(str kind):
    """Breaks an invariant; returns only if nothing checks that."""
    PLANTS[kind]()
