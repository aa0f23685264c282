"""Shard memory: how much a shard's arena needs, who takes it, what holds and frees the rest.

    arena of one shard = the rooms of its services (context/service.pxd), added up; connections and
                         chunks of consume queues are within those of TurnContext and Appender

Everything the reactor works with for a user's message is in it, bound to the shard's node, and
sealed before the first client is served: a broker under load can run out of buffers (and says so),
but not out of memory. Topics, groups and offsets are malloc'd when control makes them, and so are
the frames between reactor and control thread.

Example: the defaults make an arena of 3.1 GiB of address space, of which an idle broker touches
about 2 MiB.
"""
from cext.flow.context.turn_context cimport TurnContext

# `services` are all of a shard, `turn` among them, each behind those it stands on.

# Makes the arena, and each takes its own of it. MemoryError when there is none.
cdef int take_memory(list services, TurnContext turn, dict given) except -1
# After the store and the reactor took theirs: what is to stay in memory does, and nothing more is
# taken.
cdef void seal_memory(TurnContext turn) noexcept nogil
cdef int free_memory(list services) except -1
