"""Base64url: Base64 with the URL-safe alphabet and padding, as Java's Base64.getUrlEncoder() does.

Example: "v1 t" -> "djEgdA==". Any thread, no state.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t

# Writes four bytes for each three, or what is left of three, and returns how many.
cdef uint32_t base64url(const uint8_t* bytes, uint32_t length, uint8_t* out) noexcept nogil
# The other way, as Java's getUrlDecoder(): padding may be left out, but not half of it. Returns the
# bytes written, or MALFORMED; out may be where the text is.
cdef int32_t base64url_read(const uint8_t* text, uint32_t length, uint8_t* out) noexcept nogil
