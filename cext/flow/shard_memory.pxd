"""The memory of a shard: how much its arena needs, who takes it, what holds and frees the rest.

    arena of one shard =   chunks of consume queues     cext/store/consume_queue
                         + connections, their buffers   cext/net/reactor
                         + pulls, acks, rings, tables   here

Everything the reactor works with for a user's message is in it, bound to the shard's node, and
sealed before the first client is served: a broker under load can run out of buffers (and says so),
but not out of memory. Topics, groups and offsets are malloc'd when control makes them, and so are
the frames between reactor and control thread.

Example: the defaults make an arena of 3.1 GiB of address space, of which an idle broker touches
about 2 MiB.
"""
from cext.flow.shard_state cimport ShardState

# Makes the arena and takes what belongs to the shard itself. MemoryError when there is none.
cdef int take_memory(ShardState s, dict given) except -1
# After the reactor took its own: what is to stay in memory does, and nothing more is taken.
cdef void seal_memory(ShardState s) noexcept nogil
cdef void free_memory(ShardState s) noexcept
