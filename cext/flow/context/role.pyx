"""Role of a core. See role.pxd."""
from libc.string cimport memcpy

from cext.flow.context.options cimport TEXT_MAX

cdef const char* FOLLOWS = b"service not available now: this broker is a slave and takes no " \
    b"writes; send to the master of its name"


cdef void set_role(TurnContext t, bint follower) noexcept nogil:
    t.follower = follower
    t.writable = not follower and not t.write_stop


cdef void set_write_stop(TurnContext t, bint stop, const Text* reason) noexcept nogil:
    cdef size_t length = min(reason.length, <size_t> TEXT_MAX - 1)
    memcpy(t.stop_reason, reason.bytes, length)
    t.stop_reason[length] = 0
    t.write_stop = stop
    t.writable = not t.follower and not stop


cdef const char* refuse_remark(TurnContext t) noexcept nogil:
    return FOLLOWS if t.follower else <const char*> t.stop_reason
