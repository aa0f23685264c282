"""Header shapes: a JSON header of the same shape as an earlier one is not parsed again.

The headers that one kind of client sends for one kind of request differ in little: the opaque and
the values of extFields. A shape is an earlier header with a mask of the bytes that have to be the
same. When a new header has the same length, equals it in all those bytes and has no quote and no
backslash anywhere else, then it has the same members at the same places: they are copied from the
shape and only the opaque is read anew. One pass of comparisons, 16 or 32 bytes at a time, takes
the place of about seventy searches.

Free to differ are the characters of quoted values inside extFields, except the quotes and
backslashes among them, and the digits of the opaque. So escapes stand where they stood, strings end
where they ended, and the answer is exactly that of parse_header (shown in tests/unit/wire).

    shape   {"code":310,"extFields":{"b":"orders","i":"A\\u0001x"},"opaque":12}
    alike   {"code":310,"extFields":{"b":"trades","i":"B\\u0002y"},"opaque":13}
    not     {"code":310,"extFields":{"b":"tra\\"es","i":"B\\u0002y"},"opaque":13}     parsed in full

A header read by a shape carries its number in Header.shape: whoever looks fields up by name may
keep their places under it.

Shapes are kept by length, one each, SHAPES in all. A shape that is right more often than wrong is
not replaced (`trust`). One thread uses a HeaderShapes (the reactor, or whoever
reads answers).
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
    uint32_t length         # of the header; 0: no shape here yet
    int32_t trust           # hits lately, less misses; replaced by a miss at 0
    bint free_opaque        # the opaque's digits may differ
    Header header           # points into bytes
    uint8_t bytes[SHAPE_BYTES_MAX]
    uint8_t fixed[SHAPE_BYTES_MAX]      # 0xFF: must be as in bytes; 0: no quote, no backslash

cdef struct HeaderShapes:
    Shape* shapes           # of the arena: SHAPES of them, touched when used
    uint64_t hits
    uint64_t misses
    uint64_t learned        # shapes so far: the number of the last one

cdef struct HeaderLike:
    const Header* header    # right but for opaque, and for where remark and values lie
    ptrdiff_t shift         # they lie so many bytes behind where header says
    int32_t opaque

# OK | POOL_EMPTY. Without it (all zero) every header is parsed.
cdef int header_shapes_open(HeaderShapes* shapes, Arena* arena) noexcept nogil
# What header_shapes_open takes from the arena.
cdef uint64_t header_shapes_arena_bytes() noexcept nogil

# Same answer as parse_header, in a fifth of the time for a header like the last of its length.
cdef int parse_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                           uint8_t serialize_type, Header* out) noexcept nogil

# The same without a copy, for who asks for few of the fields: out.header is that of the shape, or
# `room` when the header had to be parsed. It holds until the next call.
cdef int find_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                          uint8_t serialize_type, Header* room, HeaderLike* out) noexcept nogil
