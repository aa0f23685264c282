"""Log calls: messages that the control thread stores or reads.

rmq/broker/core_seam.py says what each promises (LogCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.pop_calls cimport PopCalls

cdef class LogCalls(PopCalls):
    pass
