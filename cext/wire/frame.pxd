"""Frame: where one remoting command begins and ends in the bytes a connection has received.

    i32 length        of everything after these four bytes: 4 + header + body
    u8  serialisation 0 JSON, 1 binary ("ROCKETMQ")
    u24 header length
    header, then body to the end of the frame

Example: 00 00 00 0E 00 00 00 0A {"code":3} -> total 18, JSON, header 10 bytes, no body.

Any thread, no state. header.pxd checks whether the header makes sense.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    FRAME_PREFIX_BYTES = 8
    SERIALIZE_JSON = 0
    SERIALIZE_BINARY = 1


cdef struct Frame:
    uint32_t total_bytes      # whole frame, the four length bytes included
    uint32_t header_bytes
    uint32_t body_bytes
    uint32_t needed           # with NOT_READY: how many bytes must be here to ask again (8, or all)
    const uint8_t* header     # borrowed from the caller's bytes
    const uint8_t* body       # borrowed; valid also when body_bytes is 0
    uint8_t serialize_type    # SERIALIZE_JSON or SERIALIZE_BINARY


# OK | NOT_READY | TOO_LARGE (longer than frame_max_bytes, which is also what the first bytes of TLS
# and other protocols look like) | MALFORMED. A bad length is refused as soon as it can be read,
# before the rest has come.
cdef int find_frame(const uint8_t* bytes, uint64_t available, uint32_t frame_max_bytes,
                    Frame* out) noexcept nogil
