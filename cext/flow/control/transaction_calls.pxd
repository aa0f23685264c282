"""Transaction calls: half messages, and the connections that are asked about them.

rmq/broker/core_seam.py says what each promises (TransactionCalls); control_side.pxd how a call
is made.
"""
from cext.flow.control.delay_calls cimport DelayCalls

cdef class TransactionCalls(DelayCalls):
    pass
