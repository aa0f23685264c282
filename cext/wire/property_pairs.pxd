"""Property pairs: walks over a property string (properties.pxd), one pair after the other.

A mark cursor (cext/c/scan.h) finds the two separators 64 bytes at a time.

    pairs_start(&pairs, bytes, length)
    while pairs_next(&pairs, &name, &value): ...

Any thread, no state.
"""
from libc.stdint cimport uint8_t, uint32_t

from cext.wire.text cimport Text, text_of

cdef extern from "scan.h" nogil:
    ctypedef struct rmq_mark_cursor:
        pass
    uint32_t RMQ_NO_MARK
    void rmq_marks_start(rmq_mark_cursor* cursor, const uint8_t* bytes, uint32_t length,
                         uint32_t start, uint8_t a, uint8_t b) noexcept
    uint32_t rmq_marks_next(rmq_mark_cursor* cursor, uint8_t a, uint8_t b) noexcept
    bint rmq_same_name(const uint8_t* a, const char* b, uint32_t length) noexcept

cdef enum:
    PAIR_MIDDLE = 1            # NAME_VALUE_SEPARATOR of properties.pxd
    PAIR_END = 2               # PROPERTY_SEPARATOR

cdef struct PairCursor:
    rmq_mark_cursor marks
    const uint8_t* bytes       # borrowed
    uint32_t length            # below 2**31
    uint32_t at                # where the next piece begins


cdef inline void pairs_start(PairCursor* pairs, const uint8_t* bytes,
                             uint32_t length) noexcept nogil:
    pairs.bytes = bytes
    pairs.length = length
    pairs.at = 0
    rmq_marks_start(&pairs.marks, bytes, length, 0, PAIR_MIDDLE, PAIR_END)


cdef inline bint pairs_next(PairCursor* pairs, Text* name, Text* value) noexcept nogil:
    """The next piece that is a pair; False at the end."""
    cdef uint32_t middle
    cdef uint32_t end
    cdef uint32_t start
    while pairs.at < pairs.length:
        start = pairs.at
        middle = RMQ_NO_MARK
        end = rmq_marks_next(&pairs.marks, PAIR_MIDDLE, PAIR_END)
        while end != RMQ_NO_MARK and pairs.bytes[end] == PAIR_MIDDLE:
            if middle == RMQ_NO_MARK:
                middle = end
            end = rmq_marks_next(&pairs.marks, PAIR_MIDDLE, PAIR_END)
        if end == RMQ_NO_MARK:
            end = pairs.length
        pairs.at = end + 1
        if middle != RMQ_NO_MARK and middle > start and middle + 1 < end:
            name[0] = text_of(pairs.bytes + start, middle - start)
            value[0] = text_of(pairs.bytes + middle + 1, end - middle - 1)
            return True
    return False
