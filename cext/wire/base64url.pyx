"""Base64 with the URL-safe alphabet. See base64url.pxd."""
from libc.stdint cimport uint8_t, uint32_t


cdef uint32_t base64url(const uint8_t* bytes, uint32_t length, uint8_t* out) noexcept nogil:
    cdef const char* digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    cdef uint32_t at = 0, written = 0, word
    while at < length:
        word = <uint32_t> bytes[at] << 16
        if at + 1 < length:
            word |= <uint32_t> bytes[at + 1] << 8
        if at + 2 < length:
            word |= bytes[at + 2]
        out[written] = digits[word >> 18]
        out[written + 1] = digits[(word >> 12) & 63]
        out[written + 2] = digits[(word >> 6) & 63] if at + 1 < length else c"="
        out[written + 3] = digits[word & 63] if at + 2 < length else c"="
        at += 3
        written += 4
    return written


# ---- for tests ----

def encoded(bytes data not None) -> bytes:
    out = bytearray(base64url_bytes(<uint32_t> len(data)))
    base64url(<const uint8_t*> <char*> data, <uint32_t> len(data), <uint8_t*> <char*> out)
    return bytes(out)
