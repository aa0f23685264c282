"""ShardCalls: what the control thread asks of a shard, frame by frame or call by call.

Two ways lead to the reactor, both through the control link. A post (send, resubmit, close) is
pushed and forgotten. A call hands over a C function of calls.pxd with its Arguments and sleeps
until the reactor has run it, a turn at most; while no reactor runs it is done on the spot.

One thread may use it, the control thread; a lock makes a second caller wait rather than corrupt a
ring. ShardCore is the one subclass: it owns the memory, the files and the threads.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.flow.control.calls cimport Arguments
from cext.flow.control.control_link cimport CallFn
from cext.flow.shard_state cimport ShardState

cdef class ShardCalls:
    cdef ShardState s
    cdef bint running           # the reactor is
    cdef object lock

    cdef _wake(self)
    # Runs the function in the reactor (or here, when it does not run); its status.
    cdef int64_t _call(self, CallFn function, Arguments* arguments) except? -999
    cdef _post(self, int32_t kind, uint64_t connection, bytes data)
