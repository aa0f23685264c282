"""Base64url: Base64 with the URL-safe alphabet and padding, as Java's Base64.getUrlEncoder() does.

Example: "v1 t" -> "djEgdA==". Any thread, no state.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

# Writes four characters for every three bytes (also for one or two at the end); returns how many.
cdef uint32_t base64url(const uint8_t* bytes, uint32_t length, uint8_t* out) noexcept nogil
# The other way, as Java's getUrlDecoder() does: padding may be left out, but not half of it.
# Returns the number of bytes written, or MALFORMED. `out` may be the same memory as the text.
cdef int32_t base64url_read(const uint8_t* text, uint32_t length, uint8_t* out) noexcept nogil
