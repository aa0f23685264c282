"""Frame: where one remoting command begins and ends in the bytes a connection has received.

The layout and an example are in frame.pxd.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base.byteorder cimport load_u32
from cext.base.status cimport Status


cdef int find_frame(const uint8_t* bytes, uint64_t available, uint32_t frame_max_bytes,
                    Frame* out) noexcept nogil:
    cdef uint64_t total
    cdef uint32_t mark
    memset(out, 0, sizeof(Frame))
    out.needed = FRAME_PREFIX_BYTES
    if available < 4:
        return Status.NOT_READY
    total = <uint64_t>load_u32(bytes) + 4
    if total > frame_max_bytes:
        return Status.TOO_LARGE
    if total < FRAME_PREFIX_BYTES:
        return Status.MALFORMED
    out.total_bytes = <uint32_t>total
    out.needed = out.total_bytes
    if available < FRAME_PREFIX_BYTES:
        return Status.NOT_READY
    mark = load_u32(bytes + 4)
    out.serialize_type = <uint8_t>(mark >> 24)
    out.header_bytes = mark & 0xFFFFFF
    if out.serialize_type > SERIALIZE_BINARY or out.header_bytes > total - FRAME_PREFIX_BYTES:
        return Status.MALFORMED
    if available < total:
        return Status.NOT_READY
    out.header = bytes + FRAME_PREFIX_BYTES
    out.body = out.header + out.header_bytes
    out.body_bytes = out.total_bytes - FRAME_PREFIX_BYTES - out.header_bytes
    out.needed = 0
    return Status.OK
