"""Retention calls: the log's oldest files, and whether sends are taken.

rmq/broker/core_seam.py says what each promises (RetentionCalls); control_side.pxd how a call
is made.
"""
from cext.flow.control.log_calls cimport LogCalls

cdef class RetentionCalls(LogCalls):
    pass
