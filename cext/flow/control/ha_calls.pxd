"""HA calls: slaves and the master of this core, and how their sockets come to the reactor.

rmq/broker/core_seam.py says what each promises (HACalls); control_side.pxd how a call is made.
"""
from cext.flow.control.replica_calls cimport ReplicaCalls

cdef class HACalls(ReplicaCalls):
    pass
