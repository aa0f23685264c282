"""Tag filter: the tags that a subscription lets pass, as the codes that queue entries hold.

A subscription with more than CODES_MAX tags is held as "all": clients filter by the tag's text
anyway (two tags may share a hash code), so the only cost is bytes on the wire.
"""
from libc.stdint cimport int32_t, int64_t

cdef enum:
    CODES_MAX = 64          # tags of one subscription that are filtered in the broker

cdef struct TagFilter:
    bint all                # no filter
    int32_t count
    int64_t codes[CODES_MAX]   # tagsCode values, sign-extended as consume queues hold them

cdef inline bint tag_filter_passes(const TagFilter* tags, int64_t code) noexcept nogil:
    cdef int32_t i
    if tags.all:
        return True
    for i in range(tags.count):
        if tags.codes[i] == code:
            return True
    return False
