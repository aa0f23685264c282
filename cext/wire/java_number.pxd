"""Java number: reads texts exactly as Java's Integer.valueOf, Long.valueOf and Double.valueOf do.

A filter expression compares properties, which are texts, with numbers. Apache's broker and this one
must find the same messages. An integer is an optional sign and decimal digits of any script (of the
BMP), without blanks. A double may have blanks (characters up to U+0020) around it and a final f or
d, and may be NaN, Infinity or hexadecimal; it is correctly rounded.

Example: " 1.5d" is the double 1.5 and no integer; "+7" is both.

Any thread, no state but a locale made at import.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

# OK | MALFORMED (not an integer, or outside least..most).
cdef int java_integer(const uint8_t* bytes, uint32_t length, int64_t least, int64_t most,
                      int64_t* out) noexcept nogil
# OK | MALFORMED
cdef int java_double(const uint8_t* bytes, uint32_t length, double* out) noexcept nogil
