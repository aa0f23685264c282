"""Memory probe: each part of cext/memory made, used and closed; returns what happened.

    ring_is_mirrored(4096)          True: byte i and byte i + size are the same memory
    arena_takes(8192, [(16, 16)])   ([0], 0): offsets of what was taken, refusals
"""
import os
import threading

from libc.errno cimport errno
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base.status cimport OK, Status
from cext.memory.arena cimport Arena, SharedArena, arena_close, arena_open, arena_seal, arena_take
from cext.memory.buffer_pool cimport (
    BufferPool,
    buffer_pool_close,
    buffer_pool_open,
    buffer_pool_release,
    buffer_pool_arena_bytes,
    buffer_pool_take,
)
from cext.memory.mirror_ring cimport (
    MirrorRing,
    mirror_ring_at,
    mirror_ring_close,
    mirror_ring_open,
)
from cext.memory.name_map cimport (
    NameEntry,
    NameMap,
    name_map_close,
    name_map_find,
    name_map_next,
    name_map_open,
    name_map_put,
    name_map_remove,
)
from cext.memory.region cimport NODE_MAX, region_lock, region_prefer_node
from cext.memory.spsc_ring cimport (
    SpscRing,
    spsc_close,
    spsc_is_empty,
    spsc_open,
    spsc_pop,
    spsc_push,
)

cdef extern from "<sys/syscall.h>" nogil:
    enum: SYS_get_mempolicy

cdef extern from "<unistd.h>" nogil:
    long syscall(long number, ...)

cdef extern from "<sys/mman.h>" nogil:
    void* mmap(void* at, size_t size, int protection, int flags, int fd, long offset)
    int munmap(void* at, size_t size)
    enum: PROT_READ, PROT_WRITE, MAP_PRIVATE, MAP_ANONYMOUS
    void* MAP_FAILED

cdef enum:
    MPOL_F_ADDR = 2
    WORD_BITS = 64
    MASK_WORDS = 16             # NODE_MAX + 1 bits


def arena_takes(uint64_t size, list takes, int seal_after=-1):
    """Offsets given for the takes [(size, align), ...]; None for a refusal."""
    cdef Arena arena
    cdef uint8_t* at
    if arena_open(&arena, size) != Status.OK:
        raise MemoryError("no address space for the arena")
    offsets = []
    for number, (bytes_wanted, align) in enumerate(takes):
        if number == seal_after:
            arena_seal(&arena)
        at = <uint8_t*>arena_take(&arena, bytes_wanted, align)
        offsets.append(None if at == NULL else at - arena.base)
    refusals = arena.refusals
    arena_close(&arena)
    return offsets, refusals


def pool_takes(uint64_t buffer_bytes, uint32_t count, takes):
    """Runs a list of +1 (take) and -1 (release the newest); returns counters."""
    cdef BufferPool pool
    cdef list held = []
    cdef void* buffer
    cdef SharedArena memory = SharedArena(buffer_pool_arena_bytes(buffer_bytes, count))
    if buffer_pool_open(&pool, &memory.arena, buffer_bytes, count, 0) != OK:
        raise MemoryError("the arena is smaller than the pool's room")
    for step in takes:
        if step > 0:
            buffer = buffer_pool_take(&pool)
            if buffer != NULL:
                memset(buffer, 0xAB, pool.buffer_bytes)
                held.append(<size_t> buffer)
        elif held:
            buffer_pool_release(&pool, <void*> <size_t> held.pop())
    result = {"in_use": pool.in_use, "high_water": pool.high_water, "refusals": pool.refusals,
              "distinct": len(set(held)), "held": len(held)}
    buffer_pool_close(&pool)
    return result


def ring_is_mirrored(uint64_t size):
    """True when both halves are one memory; None when the size was refused."""
    cdef MirrorRing ring
    cdef int status = mirror_ring_open(&ring, size)
    cdef uint64_t i
    cdef bint same = True
    if status == Status.MALFORMED:
        return None
    if status != Status.OK:
        raise OSError("cannot map the ring")
    for i in range(0, size, 97):
        mirror_ring_at(&ring, i + 3 * size)[0] = <uint8_t>(i * 7 + 1)
        same = same and ring.base[size + i] == <uint8_t>(i * 7 + 1)
    ring.base[size - 1] = 1
    ring.base[size] = 2
    same = same and ring.base[0] == 2 and mirror_ring_at(&ring, size - 1)[0] == 1
    mirror_ring_close(&ring)
    return same


def names_answer(list steps):
    """Runs ("put", name, number) / ("remove", name) / ("find", name); returns the answers."""
    cdef NameMap names
    cdef NameEntry* entry
    cdef uint64_t cursor
    cdef bytes name
    answers = []
    if name_map_open(&names) != OK:
        raise MemoryError("no memory for the map")
    for step in steps:
        name = step[1]
        if step[0] == "put":
            answers.append(name_map_put(&names, name, len(name), <void*> <size_t> step[2]))
        elif step[0] == "remove":
            answers.append(<size_t> name_map_remove(&names, name, len(name)))
        else:
            answers.append(<size_t> name_map_find(&names, name, len(name)))
    found = {}
    cursor = name_map_next(&names, 0, &entry)
    while cursor:
        found[entry.name[:entry.length]] = <size_t> entry.value
        cursor = name_map_next(&names, cursor, &entry)
    name_map_close(&names)
    return answers, found


def region_touched(uint64_t size, int32_t node, bint lock=False):
    """Maps `size` bytes, applies both settings and touches the memory; (status of the node, status
    of the lock, errno, policy and nodes as the kernel reports them)."""
    cdef int error = 0, first_error = 0
    cdef int policy = -1
    cdef int locked = OK
    cdef uint64_t mask[MASK_WORDS]
    cdef uint64_t i
    cdef uint8_t* base = <uint8_t*> mmap(NULL, size, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    if base == MAP_FAILED:
        raise MemoryError("no address space")
    preferred = region_prefer_node(base, size, node, &error)
    first_error = error
    if lock:
        locked = region_lock(base, size, &error)
        first_error = first_error or error
    for i in range(0, size, 4096):
        base[i] = 1
    memset(mask, 0, sizeof(mask))
    if syscall(SYS_get_mempolicy, &policy, <void*> mask, <unsigned long> (NODE_MAX + 2), base,
               <unsigned long> MPOL_F_ADDR) != 0:
        error = errno
        munmap(base, size)
        raise OSError(error, os.strerror(error))
    munmap(base, size)
    nodes = [n for n in range(NODE_MAX + 1)
             if mask[n // WORD_BITS] >> <uint64_t> (n % WORD_BITS) & 1]
    return preferred, locked, first_error, policy, nodes


def ring_keeps_order(uint64_t count, uint64_t capacity):
    """Two threads move `count` numbers through a ring; True if all came in order."""
    cdef SpscRing ring
    cdef uint64_t expected = 1
    cdef void* item
    cdef bint good = True
    if spsc_open(&ring, capacity) != 0:
        raise MemoryError("no memory for the ring")
    cdef size_t address = <size_t> &ring
    pusher = threading.Thread(target=_push_all, args=(address, count))
    pusher.start()
    with nogil:
        while expected <= count:
            item = spsc_pop(&ring)
            if item != NULL:
                if <uint64_t> <size_t> item != expected:
                    good = False
                expected += 1
    pusher.join()
    good = good and spsc_is_empty(&ring)
    spsc_close(&ring)
    return good


def _push_all(size_t address, uint64_t count):
    cdef SpscRing* ring = <SpscRing*> address
    cdef uint64_t value = 1
    with nogil:
        while value <= count:
            if spsc_push(ring, <void*> <size_t> value):
                value += 1
