"""Service: the state of one folder of cext/flow, with the memory and the numbers that are its own.

    arena_bytes(given)   bytes that open() takes from the shard's arena
    open(arena, given)   takes them, and what else it needs before the store is opened
    close()              gives back what is not the arena's
    stats(), pools()     its numbers, for the control thread

A shard has a list of its services (shard_state.pxd). Their arena_bytes() are added up; they are
opened in the list's order, each after those it uses, and closed in the opposite order
(shard_memory.pxd). `given` is the dict of ShardCore's settings. A service that has no memory or no
numbers leaves out the methods it does not need.

Example: PullService.arena_bytes() is the room of pulls_max jobs and of the slots of held ones.
"""
from libc.stdint cimport uint64_t

from cext.memory.arena cimport Arena
from cext.memory.buffer_pool cimport BufferPool

cdef class Service:
    # KeyError: a setting is missing.
    cdef uint64_t arena_bytes(self, dict given) except? 0
    # MemoryError when there is no memory, ConfigError when a setting cannot be used.
    cdef int open(self, Arena* arena, dict given) except -1
    # May also be called when the service was never opened, or its open() failed.
    cdef void close(self) noexcept
    # {"messages_in": .., ..}: each number is exact, but not all of the same moment.
    cdef dict stats(self)
    # {"reply": (buffer bytes, buffers, in use, most in use, refusals), ..}
    cdef dict pools(self)

# Raises MemoryError.
cdef int no_memory(str of) except -1
# A pool's row of pools().
cdef tuple pool_numbers(const BufferPool* pool)
