"""Group calls: groups, their subscriptions and filters, and counts of what was delivered to them.

rmq/broker/core_seam.py says what each promises (GroupCalls); control_side.pxd how a call is made.
"""
from cext.flow.control.queue_calls cimport QueueCalls

cdef class GroupCalls(QueueCalls):
    pass
