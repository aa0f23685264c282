"""Pop calls: the batches that consumers which pop in order hold.

rmq/broker/core_seam.py says what each promises (PopCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.offset_calls cimport OffsetCalls

cdef class PopCalls(OffsetCalls):
    pass
