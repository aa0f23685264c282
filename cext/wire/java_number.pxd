"""Java number: texts read exactly as Java's Integer.valueOf, Long.valueOf and Double.valueOf do.

A filter expression compares properties, which are texts, with numbers; which messages match must
not depend on whose broker looks. Integers: a sign and decimal digits of any script (of the BMP), no
blanks.
Doubles: blanks (up to U+0020) around, NaN, Infinity, hexadecimal forms, a final f or d; correctly
rounded.

Example: " 1.5d" is no integer and the double 1.5; "+7" is both.

Any thread, no state but a locale made at import.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

# OK | MALFORMED (no such number, or outside least..most).
cdef int java_integer(const uint8_t* bytes, uint32_t length, int64_t least, int64_t most,
                      int64_t* out) noexcept nogil
# OK | MALFORMED
cdef int java_double(const uint8_t* bytes, uint32_t length, double* out) noexcept nogil
