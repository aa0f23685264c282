"""Name-value pairs of one record. See pairs.pxd. Any thread, no state."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp


cdef uint32_t split_pairs(const uint8_t* bytes, uint32_t length, Pair* out) noexcept nogil:
    cdef const uint8_t* at = bytes
    cdef const uint8_t* end = bytes + length
    cdef const uint8_t* split
    cdef const uint8_t* stop
    cdef Pair* same
    cdef uint32_t count = 0, name_bytes
    while at < end:
        stop = <const uint8_t*> memchr(at, 2, <size_t> (end - at))
        if stop == NULL:
            stop = end
        split = <const uint8_t*> memchr(at, 1, <size_t> (stop - at))
        if split != NULL and split > at and split + 1 < stop:
            name_bytes = <uint32_t> (split - at)
            same = <Pair*> find_pair(out, count, <const char*> at, name_bytes)
            if same == NULL and count < PAIRS_MAX:
                same = &out[count]
                same.name = at
                same.name_bytes = name_bytes
                count += 1
            if same != NULL:
                same.value = split + 1
                same.value_bytes = <uint32_t> (stop - split - 1)
        at = stop + 1
    return count


cdef const Pair* find_pair(const Pair* pairs, uint32_t count, const char* name,
                           uint32_t name_bytes) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if pairs[i].name_bytes == name_bytes and memcmp(pairs[i].name, name, name_bytes) == 0:
            return &pairs[i]
    return NULL
