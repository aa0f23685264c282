"""Input: one receive of a connection, whole frames to its protocol in place, the rest is kept.

    receive(c)      recv into the turn's scratch buffer, behind what is kept of the last frame
    on_bytes()      the protocol takes whole frames where they lie
    keep_rest()     of the last, incomplete one: a small buffer, or a jumbo buffer of its own, into
                    which the next receives go directly

A large frame that gets no jumbo buffer is refused (on_refused) and what comes of it is thrown away.

Where on_bytes says TURN_FULL the place is kept: the rest of the bytes stays where it is, nothing
else is received, and the next turn goes on there, before it polls (reactor.pxd).

Example: a frame of 1 MiB comes in pieces of 64 KiB: the first is copied to a jumbo buffer, the
others are received behind it, and the whole frame is handed over there.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cext.net.connection cimport Connection
from cext.net.output cimport Output

# What Input.open_input takes from the arena with the same arguments.
cdef uint64_t input_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                uint32_t jumbo_count, uint32_t reply_count) noexcept nogil

cdef struct Place:                  # where a full turn stopped handing out bytes
    Connection* connection          # NULL: it did not
    uint64_t id                     # its id then
    uint8_t* rest                   # in the scratch buffer or in the connection's jumbo buffer
    uint64_t rest_bytes

cdef class Input(Output):
    cdef Place place
    cdef uint8_t* scratch
    cdef uint64_t jumbo_trimmed     # releases of the jumbo pool at the last trim()

    cdef int open_input(self, uint64_t frame_max_bytes, uint32_t connections_max,
                        uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    cdef void receive(self, Connection* c) noexcept nogil
    cdef void hand_over(self, Connection* c, uint8_t* base, uint64_t available) noexcept nogil
    cdef void go_on(self) noexcept nogil        # at the place; the turn may be full again behind it
    cdef int keep_rest(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                       uint64_t needed) noexcept nogil
    # The frame that begins with `rest` is answered so, and what comes of it thrown away.
    cdef int refuse(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                    uint64_t needed) noexcept nogil
    # Large frames on their way.
    cdef bint take_half(self, Connection* c, const uint8_t* rest,
                        uint64_t rest_bytes) noexcept nogil
    cdef bint grow(self, Connection* c, uint64_t room) noexcept nogil
    cdef bint make_room(self, Connection* c, uint32_t more, uint64_t bytes) noexcept nogil
    cdef bint close_stalled(self, Connection* c, int whose) noexcept nogil
    cdef void trim(self) noexcept nogil         # about once a second: unused memory goes back
