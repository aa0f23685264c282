# Pairs: the properties of one stored record, by Java's rules (cext/wire/properties.pxd): a piece is
# a pair when its first 0x01 is neither its first nor its last byte; the later of equal names counts
# and keeps the place of the first.
#
# Example: "KEYS" 01 "k" 02 "TAGS" 01 "A" 02 "KEYS" 01 "m" 02 -> (KEYS, m), (TAGS, A).

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    PAIRS_MAX = 8192            # more do not fit: 32767 bytes, 4 a pair at least

cdef struct Pair:
    const uint8_t* name         # borrowed from the record
    const uint8_t* value
    uint32_t name_bytes
    uint32_t value_bytes

# Fills `out` (room for PAIRS_MAX); how many pairs.
cdef uint32_t split_pairs(const uint8_t* bytes, uint32_t length, Pair* out) noexcept nogil

# The value of a name among the pairs; NULL when it is not there.
cdef const Pair* find_pair(const Pair* pairs, uint32_t count, const char* name,
                           uint32_t name_bytes) noexcept nogil
