"""Service: the state of one folder of cext/flow; it takes, frees and counts what is its own.

    arena_bytes(given)   bytes that open() takes from the shard's arena
    open(arena, given)   takes them, and what else it needs before the store is opened
    close()              gives back what is not the arena's
    stats(), pools()     its numbers, for the control thread

A shard has a list of its services (shard_state.pxd): their rooms are added up, they are opened in
its order, each after those it stands on, and closed from its end (shard_memory.pxd). `given` is the
dict of ShardCore's settings. A service without memory or numbers leaves out what it does not need.

Example: PullService.arena_bytes() is the room of pulls_max jobs and of the slots of held ones.
"""
from libc.stdint cimport uint64_t

from cext.memory.arena cimport Arena
from cext.memory.buffer_pool cimport BufferPool

cdef class Service:
    # KeyError: a setting is missing.
    cdef uint64_t arena_bytes(self, dict given) except? 0
    # MemoryError when there is none, ConfigError when a setting cannot be used.
    cdef int open(self, Arena* arena, dict given) except -1
    # Of a service that was never opened, or whose open() failed, too.
    cdef void close(self) noexcept
    # {"messages_in": .., ..}: plain reads, each exact, not all of the same moment.
    cdef dict stats(self)
    # {"reply": (buffer bytes, buffers, in use, most in use, refusals), ..}
    cdef dict pools(self)

# Raises MemoryError.
cdef int no_memory(str of) except -1
# A pool's row of pools().
cdef tuple pool_numbers(const BufferPool* pool)
