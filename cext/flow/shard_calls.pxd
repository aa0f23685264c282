"""Shard calls: all calls that the control thread makes of a shard; see control/control_side.pxd.

ShardCore is the one subclass: it owns the memory, the files and the threads.
"""
from cext.flow.control.auth_calls cimport AuthCalls
from cext.flow.shard_state cimport ShardState
from cext.flow.turn cimport TurnLoop

cdef class ShardCalls(AuthCalls):
    cdef ShardState s           # whose services the calls work on
    cdef TurnLoop loop          # of its reactor

    # From now on the calls go to this shard, whose memory is not taken yet.
    cdef _take_shard(self, ShardState s)
