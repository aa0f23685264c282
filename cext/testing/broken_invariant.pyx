"""Broken invariants: each kind, planted, for the test that sees the process end.

    plant("ring")       does not return: one line on standard error, then abort()

What debug builds check is checked here in every build, by the same inline functions.
"""
cdef extern from *:
    """
    #ifndef RMQ_DEBUG
    #define RMQ_DEBUG 1
    #endif
    """

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from cext.base.state cimport state_move
from cext.base.status cimport OK
from cext.base.thread_owner cimport thread_check, thread_note
from cext.base.watermark cimport watermark_move
from cext.memory.arena cimport SharedArena
from cext.memory.buffer_pool cimport (
    BufferPool,
    buffer_pool_open,
    buffer_pool_own,
    buffer_pool_release,
    buffer_pool_room,
    buffer_pool_take,
)
from cext.memory.chain cimport ChainEntry, chain_join, chain_leave
from cext.memory.spsc_ring cimport SpscRing, spsc_open, spsc_put
from cext.store.log_link cimport LogLink, log_offer
from cext.store.queue_repair cimport REPAIR_OVER, Repair, repair_move

import threading


cdef class Pool:
    cdef SharedArena memory
    cdef BufferPool pool

    def __cinit__(self):
        self.memory = SharedArena(buffer_pool_room(64, 4))
        if buffer_pool_open(&self.pool, &self.memory.arena, 64, 4, 0) != OK:
            raise MemoryError("the arena is smaller than the pool's room")

    def own(self):
        buffer_pool_own(&self.pool, True)


def _watermark():
    cdef int64_t mark = 10
    watermark_move(&mark, 12, b"a mark never moves back")
    watermark_move(&mark, 9, b"a mark never moves back")


def _committable():
    """The same in the store: what was offered to the committer is taken back."""
    cdef LogLink link
    memset(&link, 0, sizeof(link))
    log_offer(&link, 500)
    log_offer(&link, 400)


def _state():
    cdef int32_t state = 0
    state_move(&state, 1, 1 << 0, b"from 0 to 1")
    state_move(&state, 2, 1 << 0, b"to 2 from 0 alone")


def _repair():
    """The same in the store: a repair that nobody has worked on is over."""
    cdef Repair r
    memset(&r, 0, sizeof(r))
    repair_move(&r, REPAIR_OVER)


def _ring():
    cdef SpscRing ring
    cdef int _i
    if spsc_open(&ring, 8) != 0:
        raise MemoryError("no memory for the ring")
    for _i in range(9):
        spsc_put(&ring, &ring, b"a ring of 8")


def _release():
    cdef Pool pool = Pool()
    cdef void* buffer = buffer_pool_take(&pool.pool)
    buffer_pool_release(&pool.pool, buffer)
    buffer_pool_release(&pool.pool, buffer)


def _release_of_two():
    """Seen by debug builds alone: the number in use is right."""
    cdef Pool pool = Pool()
    cdef void* buffer = buffer_pool_take(&pool.pool)
    buffer_pool_take(&pool.pool)
    buffer_pool_release(&pool.pool, buffer)
    buffer_pool_release(&pool.pool, buffer)


def _thread():
    cdef int32_t owner = 0
    thread_note(&owner)
    owner += 1                              # as if another thread had
    thread_check(&owner, b"its thread alone")


def _pool_thread():
    """Seen by debug builds alone."""
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


PLANTS = {
    "watermark": _watermark, "committable": _committable, "state": _state, "repair": _repair,
    "ring": _ring, "release": _release, "thread": _thread, "chain": _chain,
    "release_of_two": _release_of_two, "pool_thread": _pool_thread,
}


def plant(str kind):
    """Breaks an invariant; returns only where nobody checks it."""
    PLANTS[kind]()
