"""Input: receives a connection's bytes, hands whole frames to its protocol and keeps the rest.

    receive(c)      recv into the turn's scratch buffer, behind the kept bytes of the last frame
    on_bytes()      the protocol takes whole frames where they lie
    keep_rest()     keeps an incomplete last frame: in a small buffer, or in a jumbo buffer of its
                    own, into which the next receives go directly

A large frame that gets no jumbo buffer is refused (on_refused), and its bytes are discarded.

When on_bytes says TURN_FULL, its place is kept: the rest of the bytes stays where it is, nothing
else is received, and the next turn continues there instead of polling (reactor.pxd).

Example: a frame of 1 MiB arrives in pieces of 64 KiB. The first piece is copied to a jumbo buffer,
the others are received behind it, and the whole frame is handed over there.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from cext.net.connection cimport Connection
from cext.net.output cimport Output

# The bytes that Input.open_input takes from the arena for the same arguments.
cdef uint64_t input_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                uint32_t jumbo_count, uint32_t reply_count) noexcept nogil

cdef struct Place:                  # where a full turn stopped handing out bytes
    Connection* connection          # NULL: no turn has stopped
    uint64_t id                     # the connection's id at that moment
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
    # Continues at the place. The turn may be full again afterwards.
    cdef void go_on(self) noexcept nogil
    cdef int keep_rest(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                       uint64_t needed) noexcept nogil
    # Has the protocol refuse the frame that begins with `rest`; its further bytes are discarded.
    cdef int refuse(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                    uint64_t needed) noexcept nogil
    # Incomplete large frames.
    cdef bint take_half(self, Connection* c, const uint8_t* rest,
                        uint64_t rest_bytes) noexcept nogil
    cdef bint grow(self, Connection* c, uint64_t room) noexcept nogil
    cdef bint make_room(self, Connection* c, uint32_t more, uint64_t bytes) noexcept nogil
    cdef bint close_stalled(self, Connection* c, int whose) noexcept nogil
    # Called about once a second: gives unused memory of jumbo buffers back to the system.
    cdef void trim(self) noexcept nogil
