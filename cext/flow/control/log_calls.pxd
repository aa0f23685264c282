"""Log calls: messages stored and looked for by the control thread.

rmq/broker/core_seam.py says what each promises (LogCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.pop_calls cimport PopCalls

cdef class LogCalls(PopCalls):
    pass
