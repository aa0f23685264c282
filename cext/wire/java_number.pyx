"""Numbers in texts, as Java reads them. See java_number.pxd."""
from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from cext.base.status cimport Status
from cext.wire.limits cimport PROPERTIES_BYTES_MAX

cdef extern from "<locale.h>" nogil:
    ctypedef void* locale_t
    int LC_ALL_MASK
    locale_t newlocale(int mask, const char* name, locale_t base)

cdef extern from *:
    """
    extern double strtod_l(const char *text, char **end, locale_t locale);
    """
    double strtod_l(const char* text, char** end, locale_t locale) nogil

cdef enum:
    EXACT_TEN = 22                  # 10**22 is a double, 10**23 is none
    SCRIPTS = 37

cdef uint64_t EXACT_MANTISSA = 1 << 53
cdef locale_t c_locale = newlocale(LC_ALL_MASK, b"C", NULL)
cdef double[23] powers
cdef uint16_t[SCRIPTS] zeros        # the digit 0 of every script of the BMP
for _i in range(23):
    powers[_i] = float(10 ** _i)
for _i, _zero in enumerate((
        0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66,
        0x0CE6, 0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946,
        0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0,
        0xA9F0, 0xAA50, 0xABF0, 0xFF10)):
    zeros[_i] = _zero


cdef int foreign_digit(const uint8_t* at, uint32_t left, uint32_t* taken) noexcept nogil:
    """The value of a digit outside ASCII (2 or 3 bytes of UTF-8), or -1."""
    cdef uint32_t point
    cdef int i
    if (at[0] & 0xE0) == 0xC0 and left >= 2 and (at[1] & 0xC0) == 0x80:
        point = (<uint32_t> at[0] & 0x1F) << 6 | (at[1] & 0x3F)
        taken[0] = 2
    elif ((at[0] & 0xF0) == 0xE0 and left >= 3 and (at[1] & 0xC0) == 0x80
            and (at[2] & 0xC0) == 0x80):
        point = ((<uint32_t> at[0] & 0x0F) << 12 | (<uint32_t> at[1] & 0x3F) << 6
                 | (at[2] & 0x3F))
        taken[0] = 3
    else:
        return -1
    for i in range(1, SCRIPTS):
        if zeros[i] <= point < <uint32_t> zeros[i] + 10:
            return <int> (point - zeros[i])
    return -1


cdef int java_integer(const uint8_t* bytes, uint32_t length, int64_t least, int64_t most,
                      int64_t* out) noexcept nogil:
    cdef uint32_t at = 0
    cdef uint32_t taken
    cdef uint64_t total = 0
    cdef uint64_t limit = <uint64_t> most
    cdef int digit
    cdef bint negative = False
    if length > 0 and (bytes[0] == c'-' or bytes[0] == c'+'):
        negative = bytes[0] == c'-'
        at = 1
    if negative:
        limit = <uint64_t> 0 - <uint64_t> least
    if at == length:
        return Status.MALFORMED
    while at < length:
        digit = <int> bytes[at] - 48
        taken = 1
        if bytes[at] >= 0x80:
            digit = foreign_digit(bytes + at, length - at, &taken)
        if digit < 0 or digit > 9 or total > (limit - <uint64_t> digit) // 10:
            return Status.MALFORMED
        total = total * 10 + <uint64_t> digit
        at += taken
    out[0] = <int64_t> (<uint64_t> 0 - total if negative else total)
    return Status.OK


# ------------------------------------------------------------------- doubles

cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return 48 <= c <= 57


cdef inline bint is_hex_digit(uint8_t c) noexcept nogil:
    return 48 <= c <= 57 or 65 <= c <= 70 or 97 <= c <= 102


cdef uint32_t exponent_end(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    """The place after the sign and digits of an exponent; 0 when there are no digits."""
    cdef uint32_t begin
    if at < length and (bytes[at] == c'-' or bytes[at] == c'+'):
        at += 1
    begin = at
    while at < length and is_digit(bytes[at]):
        at += 1
    return at if at > begin else 0


cdef bint ends_well(const uint8_t* bytes, uint32_t length, uint32_t at) noexcept nogil:
    """Whether the text ends here, or after one type letter."""
    if at < length and bytes[at] | 0x20 in (c'f', c'd'):
        at += 1
    return at == length


cdef int slow_double(const uint8_t* bytes, uint32_t length, double* out) noexcept nogil:
    """Reads a text known to be well formed with the C library, which rounds as Java does."""
    cdef char copy[PROPERTIES_BYTES_MAX + 1]
    if length > PROPERTIES_BYTES_MAX:
        return Status.MALFORMED
    memcpy(copy, bytes, length)
    copy[length] = 0
    out[0] = strtod_l(copy, NULL, c_locale)
    return Status.OK


cdef int hex_double(const uint8_t* bytes, uint32_t length, uint32_t at,
                    double* out) noexcept nogil:
    """Reads texts like 0x1.8p3: the exponent is required; `at` is the place after the 0x."""
    cdef uint32_t whole = 0
    cdef uint32_t part = 0
    while at < length and is_hex_digit(bytes[at]):
        whole += 1
        at += 1
    if at < length and bytes[at] == c'.':
        at += 1
        while at < length and is_hex_digit(bytes[at]):
            part += 1
            at += 1
    if whole + part == 0 or at == length or (bytes[at] | 0x20) != c'p':
        return Status.MALFORMED
    at = exponent_end(bytes, length, at + 1)
    if at == 0 or not ends_well(bytes, length, at):
        return Status.MALFORMED
    return slow_double(bytes, at, out)


cdef int decimal_double(const uint8_t* bytes, uint32_t length, uint32_t at, bint negative,
                        double* out) noexcept nogil:
    cdef uint64_t mantissa = 0
    cdef uint32_t digits = 0
    cdef uint32_t end
    cdef int64_t scale = 0
    cdef bint point = False
    cdef bint plain = True
    while at < length and (is_digit(bytes[at]) or (bytes[at] == c'.' and not point)):
        if bytes[at] == c'.':
            point = True
        else:
            digits += 1
            if mantissa >= EXACT_MANTISSA // 10:
                plain = False           # so many digits may be more than a double can hold
            else:
                mantissa = mantissa * 10 + <uint64_t> (bytes[at] - 48)
            scale -= point
        at += 1
    if digits == 0:
        return Status.MALFORMED
    end = at
    if at < length and (bytes[at] | 0x20) == c'e':
        end = exponent_end(bytes, length, at + 1)
        if end == 0:
            return Status.MALFORMED
        plain = False
    if not ends_well(bytes, length, end):
        return Status.MALFORMED
    if not plain or scale < -EXACT_TEN:
        return slow_double(bytes, end, out)
    out[0] = <double> mantissa / powers[-scale]     # both exact: rounded once
    if negative:
        out[0] = -out[0]
    return Status.OK


cdef int java_double(const uint8_t* bytes, uint32_t length, double* out) noexcept nogil:
    cdef uint32_t at = 0
    cdef bint negative
    while length > 0 and bytes[length - 1] <= 32:
        length -= 1
    while length > 0 and bytes[0] <= 32:
        bytes += 1
        length -= 1
    negative = length > 0 and bytes[0] == c'-'
    if length > 0 and (negative or bytes[0] == c'+'):
        at = 1
    if at == length:
        return Status.MALFORMED
    if bytes[at] == c'N' or bytes[at] == c'I':
        if length - at == 3 and memcmp(bytes + at, b"NaN", 3) == 0:
            out[0] = NAN
            return Status.OK
        if length - at == 8 and memcmp(bytes + at, b"Infinity", 8) == 0:
            out[0] = -INFINITY if negative else INFINITY
            return Status.OK
        return Status.MALFORMED
    if length - at > 2 and bytes[at] == c'0' and (bytes[at + 1] | 0x20) == c'x':
        return hex_double(bytes, length, at + 2, out)
    return decimal_double(bytes, length, at, negative, out)
