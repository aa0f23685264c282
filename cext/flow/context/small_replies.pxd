"""Small replies: answers without a body, frames for the control thread, lines for the log."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.context.outcome cimport Outcome
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header

# Answers a request by a code and a zero-terminated text, unless it is one-way. SYSTEM_BUSY is
# counted in either case. DONE, or CLOSE_CONNECTION when no buffer is left.
cdef Outcome reply_error(TurnContext s, Connection* c, const Header* h, int32_t code,
                         const char* remark) noexcept nogil
# The same for who is answered later. False: no buffer is left, the connection has to be closed.
cdef bint reply_error_to(TurnContext s, Connection* c, int32_t opaque, uint8_t serialize_type,
                         int32_t code, const char* remark) noexcept nogil
# Control has heard of the connection, before the first message about it. False: the link is full.
cdef bint introduce(TurnContext s, Connection* c) noexcept nogil
# Gives a frame to the control thread. False: too much waits there already.
cdef bint hand_to_control(TurnContext s, Connection* c, const Frame* f) noexcept nogil
# A line for the log; at most 64 a second are passed on.
cdef void log_event(TurnContext s, Connection* c, const char* text) noexcept nogil
# The same of a request that is refused, for the audit log. `user`: who is said to ask; `known`: it
# is his signature.
cdef void log_refusal(TurnContext s, const Connection* c, int32_t code, const char* user,
                      bint known, const char* cause) noexcept nogil
cdef int32_t address_text(const Connection* c, char* out, int32_t capacity) noexcept nogil
# The same of 4 or 16 bytes of an address and 4 of a port.
cdef int32_t host_text(const uint8_t* host, uint32_t bytes, char* out,
                       int32_t capacity) noexcept nogil

# Clients that had more than their share of what waits for control are read again when it has caught
# up; the poll looks for that every 2 ms (SHARE_POLL_MS).
cdef Step share_step(TurnContext s) noexcept
# Last thing of a turn: control hears that there is something for it.
cdef Step wake_control_step(TurnContext s) noexcept
