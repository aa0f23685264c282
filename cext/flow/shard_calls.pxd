"""ShardCalls: all that the control thread may call of a shard; see control/control_side.pxd.

ShardCore is the one subclass: it owns the memory, the files and the threads.
"""
from cext.flow.control.replica_calls cimport ReplicaCalls
from cext.flow.shard_state cimport ShardState

cdef class ShardCalls(ReplicaCalls):
    cdef ShardState s           # whose services the calls work on
