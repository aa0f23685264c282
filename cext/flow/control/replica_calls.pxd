"""Replica calls: a log that is a copy of another core's, and its promotion.

rmq/broker/core_seam.py says what each promises (ReplicaCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.transaction_calls cimport TransactionCalls

cdef class ReplicaCalls(TransactionCalls):
    pass
