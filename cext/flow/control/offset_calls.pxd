"""Offset calls: consumer offsets and pull offsets.

rmq/broker/core_seam.py says what each promises (OffsetCalls); control_side.pxd how a call is made.
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.context.control_link cimport CallFn
from cext.flow.control.group_calls cimport GroupCalls

cdef class OffsetCalls(GroupCalls):
    cdef _move(self, CallFn function, bytes group, bytes topic, int32_t queue_id, int64_t offset)
