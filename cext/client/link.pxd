"""Link: one connection of the client. Engine thread only, except link_room (engine's lock held).

A link is a host and a port. Its first frame makes the connection; after it broke, the next frame
makes it anew, to the address that the host has then. Frames wait in `fill` meanwhile, and are lost
with the connection they wait for.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.client.state cimport EngineState, Link
from cext.wire.frame cimport Frame

# OK | POOL_EMPTY. Nothing is connected yet.
cdef int link_open(Link* link, int32_t index) noexcept nogil
cdef void link_free(Link* link) noexcept nogil

# Where `bytes` more may be written in `fill`; NULL without memory. The caller then moves fill_used.
cdef uint8_t* link_room(Link* link, uint64_t bytes) noexcept nogil

# Puts the link on the engine's list of links with something to send (lock held).
cdef void link_mark(EngineState* state, Link* link) noexcept nogil

# Begins to connect, or takes over given_fd. OK (connecting or open) | IO_ERROR (*error).
cdef int link_connect(EngineState* state, Link* link, int64_t now_us, int* error) noexcept nogil

# After EPOLLOUT while connecting: OK (open) | IO_ERROR (*error).
cdef int link_connected(EngineState* state, Link* link, int* error) noexcept nogil

# Sends what there is: OK (all sent) | NOT_READY (waits for EPOLLOUT) | IO_ERROR (*error).
cdef int link_flush(EngineState* state, Link* link, int* error) noexcept nogil

# One recv: OK | NOT_READY | IO_ERROR (*error, 0 when the peer closed).
cdef int link_receive(Link* link, int* error) noexcept nogil

# The next whole frame. OK: *out is the frame, and *large its memory if the caller must free that |
# NOT_READY | MALFORMED | TOO_LARGE.
cdef int link_next_frame(Link* link, Frame* out, uint8_t** large) noexcept nogil

# How many bytes of the incoming frame are here, and its length (for a short one: its most).
cdef int64_t link_frame_have(const Link* link) noexcept nogil
cdef int64_t link_frame_total(const Link* link) noexcept nogil

# Closes the descriptor and forgets what was under way in both directions (lock held).
cdef void link_drop(EngineState* state, Link* link) noexcept nogil
