"""Arrow probe: stored records decoded into columns, as the puller and the log reader do it.

    decode_bytes(decoder, data, 0)      (Status.OK, len(data), 3)
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.arrow.decoder cimport Decoder
from cext.base.status cimport Status


def decode_bytes(Decoder decoder not None, bytes data not None, int64_t first=-1,
                 int64_t end=(1 << 62)) -> tuple:
    """Decodes whole records: (status, bytes used, next offset)."""
    cdef int64_t next = first
    cdef uint64_t used = 0
    cdef const uint8_t* at = data
    cdef uint64_t length = len(data)
    cdef int status
    with nogil:
        status = decoder.decode(at, length, first, end, &next, &used)
    if status == Status.POOL_EMPTY:
        decoder.raise_failure()
    return status, used, next
