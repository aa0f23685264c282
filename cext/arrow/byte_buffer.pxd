# ByteBuffer: memory that grows while a column is built and is then given away whole (array.pxd).
#
# Whoever fills a ByteBuffer owns it. Code that takes its memory frees that with free(), and leaves
# the ByteBuffer empty; the next reserve takes fresh memory. malloc keeps freed blocks of this size
# at hand, so steady reading takes no pages from the kernel.
#
# Example: after appending "ab" and "c", 3 bytes are in use; once given away, it is empty again.

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef struct ByteBuffer:
    uint8_t* bytes              # owned; NULL when empty
    uint64_t size               # in use
    uint64_t capacity

# Makes `more` bytes fit behind `size`. False: no memory, nothing has changed.
cdef bint buffer_reserve(ByteBuffer* to, uint64_t more) noexcept nogil
cdef void buffer_free(ByteBuffer* to) noexcept nogil

cdef inline bint buffer_append(ByteBuffer* to, const void* bytes, uint64_t count) noexcept nogil:
    if to.capacity - to.size < count and not buffer_reserve(to, count):
        return False
    if count > 0:
        memcpy(to.bytes + to.size, bytes, count)
        to.size += count
    return True

# The same for text: bytes that are not UTF-8 become U+FFFD, one bad byte at a time, as in Java.
cdef bint buffer_append_text(ByteBuffer* to, const uint8_t* bytes, uint64_t count) noexcept nogil
