# Memory that grows while a column is built and is then given away in one piece (array.pxd).
#
# A Growing is owned by whoever fills it. Who takes its memory frees it with free() and leaves the
# Growing empty; the next reserve takes fresh memory. malloc keeps freed pieces of this size at
# hand, so steady reading takes no pages from the kernel.
#
# Example: append "ab" and "c" to one: 3 bytes in use; given away, it is empty again.

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef struct Growing:
    uint8_t* bytes              # owned; NULL when empty
    uint64_t size               # in use
    uint64_t capacity

# True when `more` bytes fit behind `size` now; False: no memory, nothing changed.
cdef bint growing_reserve(Growing* to, uint64_t more) noexcept nogil
cdef void growing_free(Growing* to) noexcept nogil

cdef inline bint growing_append(Growing* to, const void* bytes, uint64_t count) noexcept nogil:
    if to.capacity - to.size < count and not growing_reserve(to, count):
        return False
    if count > 0:
        memcpy(to.bytes + to.size, bytes, count)
        to.size += count
    return True

# The same for text: what is no UTF-8 becomes U+FFFD, a bad byte at a time, as Java decodes it.
cdef bint growing_append_text(Growing* to, const uint8_t* bytes, uint64_t count) noexcept nogil
