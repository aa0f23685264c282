"""Ext address: the tags code of a queue entry that Apache wrote with enableConsumeQueueExt.

It is neither a tag's code (32 bits, sign-extended) nor a due time, but a place in consumequeue_ext:
the offset there + Long.MIN_VALUE. The record has all that is stored there, so rmq reads the record
and never the extension. Example: -9223372036854775808 is the first place.
"""
from libc.stdint cimport int64_t


cdef inline bint is_ext_address(int64_t tags_code) noexcept nogil:
    return tags_code < -2147483648
