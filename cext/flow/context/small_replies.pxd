"""Small replies: answers without a body, frames for the control thread, lines for the log."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.context.outcome cimport Outcome
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

# Answers a request with a code and a zero-terminated text, unless it is one-way. SYSTEM_BUSY is
# counted in either case. DONE, or CLOSE_CONNECTION when no buffer is left.
cdef Outcome reply_error(TurnContext s, Connection* c, const Header* h, int32_t code,
                         const char* remark) noexcept nogil
# The same for a request that is answered later. False: no buffer is left; close the connection.
cdef bint reply_error_to(TurnContext s, Connection* c, int32_t opaque, uint8_t serialize_type,
                         int32_t code, const char* remark) noexcept nogil
# Tells control of the connection, if it is not known there yet; comes before the first message
# about it. False: the link is full.
cdef bint introduce(TurnContext s, Connection* c) noexcept nogil
# Gives a frame to the control thread. False: too much waits there already.
cdef bint hand_to_control(TurnContext s, Connection* c, const Frame* f) noexcept nogil
# Sends a line to the log; at most 64 a second are passed on.
cdef void log_event(TurnContext s, Connection* c, const char* text) noexcept nogil
# The same for a request that is refused, for the audit log. `user`: the name that the request
# gives; `known`: the request is signed by that user.
cdef void log_refusal(TurnContext s, const Connection* c, int32_t code, const char* user,
                      bint known, const char* cause) noexcept nogil
cdef int32_t address_text(const Connection* c, char* out, int32_t capacity) noexcept nogil
# The same for an address given as 4 or 16 bytes and a port given as 4.
cdef int32_t host_text(const uint8_t* host, uint32_t bytes, char* out,
                       int32_t capacity) noexcept nogil

# Reads clients again that had more than their share of what waits for control, once control has
# caught up; the poll looks for that every 2 ms (SHARE_POLL_MS).
cdef Step share_step(TurnContext s) noexcept
# The last step of a turn: wakes control when there is something for it.
cdef Step wake_control_step(TurnContext s) noexcept
