"""Delay calls: delivery of delayed and timed messages.

rmq/broker/core_seam.py says what each promises (DelayCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.retention_calls cimport RetentionCalls

cdef class DelayCalls(RetentionCalls):
    pass
