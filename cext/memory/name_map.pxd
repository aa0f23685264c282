"""Name map: from byte strings to pointers, for tables of topics, groups, filters and offsets.

Open addressing with linear probing over a power-of-two table that is at most half full. Names are
copied in; values belong to the caller. Only the reactor thread touches a map. Look-ups allocate
nothing; inserts are rare (a topic is made, a consumer joins) and may grow the table. Names come
into the map only through the control thread, which bounds their number, so a client cannot fill the
table with colliding names of its choice on the hot path.

Example: "TopicTest" -> Topic*; "TopicTest@group-a" -> GroupOffsets*.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport Status

cdef enum:
    PAIR_BYTES_MAX = 1024   # two names and the byte between them; each is at most 255 bytes

cdef struct NameEntry:
    uint64_t hash           # 0: the slot is empty
    uint8_t* name           # owned copy
    uint32_t length         # bytes of name
    void* value             # borrowed: the caller owns it; NULL marks a removed entry

cdef struct NameMap:
    NameEntry* slots
    uint64_t mask
    uint64_t used           # slots with a hash, removed ones included
    uint64_t live           # entries with a value

cdef int name_map_open(NameMap* names) noexcept nogil
cdef void name_map_close(NameMap* names) noexcept nogil
cdef void* name_map_find(NameMap* names, const uint8_t* name, uint32_t length) noexcept nogil
# Sets the value (not NULL) of a name. OK | POOL_EMPTY: there is no memory.
cdef int name_map_put(NameMap* names, const uint8_t* name, uint32_t length,
                      void* value) noexcept nogil
# Returns the value of a name. When it has none, value_bytes of zeroed memory become its value (the
# caller calls free() once it is removed). NULL: there is no memory.
cdef void* name_map_obtain(NameMap* names, const uint8_t* name, uint32_t length,
                           uint64_t value_bytes) noexcept nogil
# Returns the value the name had, or NULL.
cdef void* name_map_remove(NameMap* names, const uint8_t* name, uint32_t length) noexcept nogil
# Walks the live entries: start with cursor 0, pass back what is returned; 0 is the end.
cdef uint64_t name_map_next(NameMap* names, uint64_t cursor, NameEntry** entry) noexcept nogil

# Makes one name of two, with a byte between them that occurs in neither; `out` has room for
# PAIR_BYTES_MAX. Returns the length, or TOO_LARGE.
cdef inline int name_pair(uint8_t* out, const uint8_t* first, uint32_t first_length,
                          uint8_t separator, const uint8_t* second,
                          uint32_t second_length) noexcept nogil:
    cdef uint64_t length = <uint64_t> first_length + second_length + 1
    if length > PAIR_BYTES_MAX:
        return Status.TOO_LARGE
    memcpy(out, first, first_length)
    out[first_length] = separator
    memcpy(out + first_length + 1, second, second_length)
    return <int> length
