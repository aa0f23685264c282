"""Property edit: copies a property string without some names; append_property() then adds others.

All strings are in the unescaped form of properties.pxd. A pair is left out when its whole name
matches, wherever and however often it occurs; pieces that are no pair are copied as they are.

Example: DELAY 01 3 02 TAGS 01 A without {"DELAY"} -> TAGS 01 A 02 (always closed by 0x02, so that
the next pair may be appended).

Any thread, no state.
"""
from libc.stdint cimport uint8_t, uint32_t

# Copies `length` bytes of properties to `out` (length + 1 bytes of room, or `bytes` itself) without
# the pairs whose name is one of `names`; returns the bytes written.
cdef uint32_t copy_properties_without(const uint8_t* bytes, uint32_t length,
                                      const char** names, int count, uint8_t* out) noexcept nogil

# The same without the property that only the broker may set and no sender: POP_CK, by which a
# consumer acknowledges what it popped. scan_properties() says whether it is there
# (pop_check_point).
cdef uint32_t copy_without_reserved(const uint8_t* bytes, uint32_t length,
                                    uint8_t* out) noexcept nogil
