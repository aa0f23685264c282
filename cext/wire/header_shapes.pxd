"""Header shapes: a JSON header of the same shape as an earlier one is not parsed again.

The headers that one kind of client sends for one kind of request differ only in the opaque and in
the values of extFields. A shape is an earlier header with a mask of the bytes that must be the
same. When a new header has the same length, equals the shape in all those bytes and has no quote
and no backslash anywhere else, it has the same members at the same places: they are copied from
the shape, and only the opaque is read anew. One pass of comparisons, 16 or 32 bytes at a time,
replaces about seventy searches.

These bytes may differ: the characters of quoted values inside extFields, except quotes and
backslashes, and the digits of the opaque. So all escapes and all ends of strings are where they
are in the shape, and the result is exactly that of parse_header (shown in tests/unit/wire).

    shape   {"code":310,"extFields":{"b":"orders","i":"A\\u0001x"},"opaque":12}
    alike   {"code":310,"extFields":{"b":"trades","i":"B\\u0002y"},"opaque":13}
    not     {"code":310,"extFields":{"b":"tra\\"es","i":"B\\u0002y"},"opaque":13}     parsed in full

A header that was read by a shape has the shape's number in Header.shape. Code that looks fields up
by name may note their places for that number.

There are SHAPES places, and a header's place is its length modulo SHAPES. A shape that matches more
often than not keeps its place (`trust`). One thread uses a HeaderShapes (the reactor, or the thread
that reads answers).
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.wire.header cimport Header

cdef enum:
    SHAPES = 64             # a power of two
    SHAPE_BYTES_MAX = 1024  # longer headers are always parsed
    TRUST_MAX = 8

cdef struct Shape:
    uint32_t length         # of the header; 0: there is no shape here yet
    int32_t trust           # recent hits minus misses; at 0 a miss replaces the shape
    bint free_opaque        # the opaque's digits may differ
    Header header           # points into bytes
    uint8_t bytes[SHAPE_BYTES_MAX]
    uint8_t fixed[SHAPE_BYTES_MAX]      # 0xFF: must be as in bytes; 0: no quote, no backslash

cdef struct HeaderShapes:
    Shape* shapes           # SHAPES of them, in the arena; memory is touched when used
    uint64_t hits
    uint64_t misses
    uint64_t learned        # shapes made so far, which is also the number of the last one

cdef struct HeaderLike:
    const Header* header    # true except for the opaque and the addresses of remark and values
    ptrdiff_t shift         # add it to those addresses
    int32_t opaque

# OK | POOL_EMPTY. With a HeaderShapes that was not opened (all zero), every header is parsed.
cdef int header_shapes_open(HeaderShapes* shapes, Arena* arena) noexcept nogil
# What header_shapes_open takes from the arena.
cdef uint64_t header_shapes_arena_bytes() noexcept nogil

# Same answer as parse_header, in a fifth of the time for a header like the last of its length.
cdef int parse_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                           uint8_t serialize_type, Header* out) noexcept nogil

# The same without a copy, for callers that read few of the fields: out.header is the shape's
# header, or `room` when the header had to be parsed. It is valid until the next call.
cdef int find_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                          uint8_t serialize_type, Header* room, HeaderLike* out) noexcept nogil
