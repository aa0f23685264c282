"""The memory of a shard. See shard_memory.pxd."""
from libc.stdint cimport uint64_t

from cext.flow.context.service cimport Service
from cext.memory.arena cimport SharedArena, arena_lock, arena_seal


cdef int take_memory(list services, TurnContext turn, dict given) except -1:
    cdef Service service
    cdef uint64_t room = 0
    for service in services:
        room += service.arena_bytes(given)
    turn.memory = SharedArena(room, given["node"])
    for service in services:
        service.open(&turn.memory.arena, given)
    return 0


cdef void seal_memory(TurnContext turn) noexcept nogil:
    # All but the jumbo buffers, which go back to the system when they are not needed.
    arena_lock(&turn.memory.arena, <uint64_t> (turn.net.jumbo_pool.base - turn.memory.arena.base))
    arena_seal(&turn.memory.arena)


cdef int free_memory(list services) except -1:
    cdef Service service
    for service in reversed(services):
        service.close()
    return 0
