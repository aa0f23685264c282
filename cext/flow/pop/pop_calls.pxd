"""What the control thread asks about pops, as calls.pxd does about the rest."""
from cext.flow.control.calls cimport Arguments
from cext.flow.shard_state cimport ShardState

cdef void call_copy_orders(ShardState s, Arguments* x) noexcept nogil
cdef void call_put_order(ShardState s, Arguments* x) noexcept nogil
