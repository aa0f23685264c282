"""Header shapes: a JSON header of the same shape as an earlier one is not parsed again.

What a shape is and why the answer is the same: header_shapes.pxd.
"""
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from cext.base.status cimport Status
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.wire.frame cimport SERIALIZE_JSON
from cext.wire.header cimport EXT_FIELDS_MAX, ExtField, Header, parse_header
from cext.wire.text cimport Text, text_i32

cdef extern from "same_shape.h" nogil:
    ctypedef bint (*rmq_same_shape_function)(const uint8_t* bytes, const uint8_t* like,
                                             const uint8_t* fixed, uint32_t length) noexcept nogil
    rmq_same_shape_function rmq_same_shape

cdef enum:
    QUOTE = 34
    BACKSLASH = 92
    FIXED = 0xFF


cdef uint64_t header_shapes_arena_bytes() noexcept nogil:
    return arena_page_bytes(SHAPES * sizeof(Shape))


cdef int header_shapes_open(HeaderShapes* shapes, Arena* arena) noexcept nogil:
    memset(shapes, 0, sizeof(HeaderShapes))
    shapes.shapes = <Shape*>arena_take_pages(arena, SHAPES * sizeof(Shape))
    return Status.OK if shapes.shapes != NULL else Status.POOL_EMPTY


cdef void let_differ(Shape* shape, const Text* text) noexcept nogil:
    cdef uint32_t at = <uint32_t>(text.bytes - shape.bytes)
    cdef uint32_t end = at + text.length
    while at < end:
        if shape.bytes[at] != QUOTE and shape.bytes[at] != BACKSLASH:
            shape.fixed[at] = 0
        at += 1


cdef void learn(HeaderShapes* shapes, Shape* shape, const uint8_t* bytes,
                uint32_t length) noexcept nogil:
    """Makes a shape of a header that parse_header accepted."""
    cdef Header* header = &shape.header
    cdef int i
    shape.length = 0
    shape.trust = 0
    memcpy(shape.bytes, bytes, length)
    memset(shape.fixed, FIXED, length)
    if parse_header(shape.bytes, length, SERIALIZE_JSON, header) != Status.OK:
        return
    for i in range(header.ext_count):
        # Only a quoted value has a quote before it. Numbers, words and nested values stay fixed.
        if header.ext[i].value.bytes != NULL and (header.ext[i].value.bytes - 1)[0] == QUOTE:
            let_differ(shape, &header.ext[i].value)
    shape.free_opaque = header.opaque_text.bytes != NULL and not header.opaque_text.escaped
    if shape.free_opaque:
        let_differ(shape, &header.opaque_text)
    shapes.learned += 1
    header.shape = shapes.learned
    shape.length = length


cdef inline Text moved(const Text* text, ptrdiff_t shift) noexcept nogil:
    """The text at the same place in another header."""
    cdef Text out = text[0]
    if out.bytes != NULL:
        out.bytes += shift
    return out


cdef inline bint is_like(const Shape* shape, const uint8_t* bytes, uint32_t length,
                         int32_t* opaque) noexcept nogil:
    """Whether the header has this shape. Also False when the opaque is not simply a number:
    parse_header then decides what it is."""
    cdef Text digits
    if shape.length != length or not rmq_same_shape(bytes, shape.bytes, shape.fixed, length):
        return False
    if not shape.free_opaque:
        opaque[0] = shape.header.opaque
        return True
    digits = moved(&shape.header.opaque_text, bytes - shape.bytes)
    return digits.bytes[0] != c'+' and text_i32(&digits, opaque) == Status.OK


cdef inline Shape* shape_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                              uint8_t serialize_type, int32_t* opaque) noexcept nogil:
    """The shape of this header; NULL: it must be parsed (parse_and_learn)."""
    cdef Shape* shape
    if (serialize_type != SERIALIZE_JSON or length == 0 or length > SHAPE_BYTES_MAX
            or shapes.shapes == NULL):
        return NULL
    shape = &shapes.shapes[length & (SHAPES - 1)]
    if not is_like(shape, bytes, length, opaque):
        return NULL
    shapes.hits += 1
    if shape.trust < TRUST_MAX:
        shape.trust += 1
    return shape


cdef inline int parse_and_learn(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                                uint8_t serialize_type, Header* out) noexcept nogil:
    cdef Shape* shape
    cdef int status = parse_header(bytes, length, serialize_type, out)
    if (serialize_type != SERIALIZE_JSON or length == 0 or length > SHAPE_BYTES_MAX
            or shapes.shapes == NULL):
        return status
    shapes.misses += 1
    shape = &shapes.shapes[length & (SHAPES - 1)]
    if shape.length != 0 and shape.trust > 0:
        shape.trust -= 1
    elif status == Status.OK:
        learn(shapes, shape, bytes, length)
    return status


cdef int parse_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                           uint8_t serialize_type, Header* out) noexcept nogil:
    cdef int32_t opaque
    cdef ptrdiff_t shift
    cdef int i
    cdef Shape* shape = shape_like(shapes, bytes, length, serialize_type, &opaque)
    if shape == NULL:
        return parse_and_learn(shapes, bytes, length, serialize_type, out)
    # The keys keep pointing into the shape: they are the same bytes, and outlive the request.
    memcpy(out, &shape.header, sizeof(Header) - (EXT_FIELDS_MAX - shape.header.ext_count)
           * sizeof(ExtField))
    shift = bytes - shape.bytes
    out.remark = moved(&shape.header.remark, shift)
    out.opaque = opaque
    out.opaque_text = moved(&shape.header.opaque_text, shift)
    for i in range(out.ext_count):
        if out.ext[i].value.bytes != NULL:
            out.ext[i].value.bytes += shift
    return Status.OK


cdef int find_header_like(HeaderShapes* shapes, const uint8_t* bytes, uint32_t length,
                          uint8_t serialize_type, Header* room, HeaderLike* out) noexcept nogil:
    cdef Shape* shape = shape_like(shapes, bytes, length, serialize_type, &out.opaque)
    cdef int status
    if shape != NULL:
        out.header = &shape.header
        out.shift = bytes - shape.bytes
        return Status.OK
    status = parse_and_learn(shapes, bytes, length, serialize_type, room)
    out.header = room
    out.shift = 0
    out.opaque = room.opaque
    return status
