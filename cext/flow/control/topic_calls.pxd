"""Topic calls: the control thread's changes of the reactor's topics, and their counters.

rmq/broker/core_seam.py says what each promises (TopicCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.connection_calls cimport ConnectionCalls

cdef class TopicCalls(ConnectionCalls):
    pass
