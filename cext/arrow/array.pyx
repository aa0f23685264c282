"""Arrow arrays over grown memory. See array.pxd."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from cext.arrow.byte_buffer cimport ByteBuffer


cdef void release(ArrowArray* array) noexcept nogil:
    cdef int64_t i
    for i in range(array.n_buffers):
        free(<void*> array.buffers[i])
    for i in range(array.n_children):
        array_free(array.children[i])
    free(array.private_data)
    array.release = NULL


cdef bint array_open(ArrowArray* out, int64_t length, int64_t nulls, int buffers,
                     int children) noexcept nogil:
    """One piece of memory holds the pointers to buffers and children, and the children."""
    cdef size_t pointers = <size_t> (buffers + children) * sizeof(void*)
    cdef char* memory = <char*> calloc(1, pointers + <size_t> children * sizeof(ArrowArray) + 1)
    cdef int i
    memset(out, 0, sizeof(ArrowArray))
    if memory == NULL:
        return False
    out.length = length
    out.null_count = nulls
    out.n_buffers = buffers
    out.n_children = children
    out.buffers = <const void**> memory
    out.children = <ArrowArray**> (out.buffers + buffers)
    for i in range(children):
        out.children[i] = <ArrowArray*> (memory + pointers) + i
    out.private_data = memory
    out.release = release
    return True


cdef void array_give(ArrowArray* to, int at, ByteBuffer* memory) noexcept nogil:
    to.buffers[at] = memory.bytes
    memory.bytes = NULL
    memory.size = memory.capacity = 0


cdef void array_free(ArrowArray* array) noexcept nogil:
    if array.release != NULL:
        array.release(array)
