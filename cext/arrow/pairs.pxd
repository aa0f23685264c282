# Pairs: the properties of one stored record, by Java's rules (cext/wire/properties.pxd): a piece is
# a pair when its first 0x01 is neither its first nor its last byte; of equal names, the last value
# counts, at the place of the first.
#
# Example: "KEYS" 01 "k" 02 "TAGS" 01 "A" 02 "KEYS" 01 "m" 02 -> (KEYS, m), (TAGS, A).

from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    PAIRS_MAX = 8192            # there can be no more: 32767 bytes, at least 4 a pair

cdef struct Pair:
    const uint8_t* name         # borrowed from the record
    const uint8_t* value
    uint32_t name_bytes
    uint32_t value_bytes

# Fills `out` (room for PAIRS_MAX) and returns the number of pairs.
cdef uint32_t split_pairs(const uint8_t* bytes, uint32_t length, Pair* out) noexcept nogil

# The pair with this name; NULL when there is none.
cdef const Pair* find_pair(const Pair* pairs, uint32_t count, const char* name,
                           uint32_t name_bytes) noexcept nogil
