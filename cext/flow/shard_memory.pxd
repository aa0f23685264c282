"""Shard memory: how much a shard's arena needs, who takes it, and where the rest lies.

    arena of one shard = the sum of what its services need (context/service.pxd); connections and
                         chunks of consume queues are part of TurnContext's and Appender's share

Everything that the reactor needs for a user's message lies in the arena, which is bound to the
shard's node and sealed before the first client is served: a broker under load can run out of
buffers (and says so), but not out of memory. Topics, groups and offsets are malloc'd when control
makes them, and so are the frames between reactor and control thread.

Example: the defaults make an arena of 3.1 GiB of address space, of which an idle broker touches
about 2 MiB.
"""
from cext.flow.context.turn_context cimport TurnContext

# `services` are all services of a shard, `turn` among them, each after those it uses.

# Makes the arena and lets each service take its part. MemoryError when there is no memory.
cdef int take_memory(list services, TurnContext turn, dict given) except -1
# Locks into memory what must stay there, and lets nothing more be taken. Called after the store and
# the reactor have taken their parts.
cdef void seal_memory(TurnContext turn) noexcept nogil
cdef int free_memory(list services) except -1
