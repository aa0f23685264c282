"""Batch: the body of a send whose header says batch: several messages one after the other.

    i32 total size (itself included), i32 magic, i32 body CRC, i32 flag,
    i32 n + body, i16 n + properties                      repeated until the body ends

Clients send magic and CRC as 0, and they are not read. Properties are plain (no JSON escapes).

Example: one message "x" without properties is 23 bytes: 00000017 00000000 00000000 00000000
00000001 78 0000.

Any thread, no state. Walk: at = body; while at < end: status = batch_next(&at, end, &message).
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef enum:
    BATCH_FIXED_BYTES = 22


cdef struct BatchMessage:
    const uint8_t* body            # borrowed
    const uint8_t* properties      # borrowed; valid also when empty
    uint32_t body_bytes
    uint32_t properties_bytes      # at most 32767
    int32_t flag                   # the user's own


# Reads the message at at[0] and moves at[0] to the end of it. OK | MALFORMED (at[0] unchanged).
cdef int batch_next(const uint8_t** at, const uint8_t* end, BatchMessage* out) noexcept nogil
