"""Connection calls: frames and connections, from the control thread to the reactor and back.

rmq/broker/core_seam.py says what each promises (ConnectionCalls); control_side.pxd how a call
is made.
"""
from cext.flow.control.control_side cimport ControlSide

cdef class ConnectionCalls(ControlSide):
    pass
