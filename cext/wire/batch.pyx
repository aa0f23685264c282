"""Batch: the body of a send whose header says batch: several messages one after the other.

The layout and an example are in batch.pxd. A message whose parts do not add up to its total size is
refused: RocketMQ's own broker ignores that field, but every client writes it correctly, and a wrong
size means that the two sides see different boundaries.
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.base.byteorder cimport load_i16, load_i32
from cext.base.status cimport Status


cdef int batch_next(const uint8_t** at, const uint8_t* end, BatchMessage* out) noexcept nogil:
    cdef const uint8_t* start = at[0]
    cdef ptrdiff_t available = end - start
    cdef int32_t total
    cdef int32_t body_bytes
    cdef int32_t properties_bytes
    if available < BATCH_FIXED_BYTES:
        return Status.MALFORMED
    total = load_i32(start)
    body_bytes = load_i32(start + 16)
    if not BATCH_FIXED_BYTES <= total <= available:
        return Status.MALFORMED
    if not 0 <= body_bytes <= total - BATCH_FIXED_BYTES:
        return Status.MALFORMED
    properties_bytes = load_i16(start + 20 + body_bytes)
    if properties_bytes != total - BATCH_FIXED_BYTES - body_bytes:      # so it is not negative
        return Status.MALFORMED
    out.flag = load_i32(start + 12)
    out.body = start + 20
    out.body_bytes = <uint32_t>body_bytes
    out.properties = start + BATCH_FIXED_BYTES + body_bytes
    out.properties_bytes = <uint32_t>properties_bytes
    at[0] = start + total
    return Status.OK
