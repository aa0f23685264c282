"""Base64 with the URL-safe alphabet and padding, as Java's Base64.getUrlEncoder() writes it.

Example: "v1 t" -> "djEgdA==". Any thread, no state.
"""
from libc.stdint cimport uint8_t, uint32_t

cdef inline uint32_t base64url_bytes(uint32_t length) noexcept nogil:
    return (length + 2) // 3 * 4

# Writes base64url_bytes(length) bytes, which it returns.
cdef uint32_t base64url(const uint8_t* bytes, uint32_t length, uint8_t* out) noexcept nogil
