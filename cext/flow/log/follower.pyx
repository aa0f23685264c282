"""Followers. See follower.pxd."""
from cext.base.status cimport MALFORMED, OK


cdef void call_set_replicated(ShardState s, Arguments* x) noexcept nogil:
    # A follower can be ahead of this core's disk, never of its log.
    x.status = OK if 0 <= x.numbers[0] <= s.log.marks.appended else MALFORMED
    if x.status == OK:
        s.log.marks.replicated = x.numbers[0]
