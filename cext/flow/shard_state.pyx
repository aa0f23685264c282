"""The state of one shard's reactor. See shard_state.pxd."""


cdef class ShardState:
    pass
