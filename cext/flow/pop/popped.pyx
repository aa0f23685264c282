"""Popped. See popped.pxd."""
from libc.string cimport memset

cdef extern from "<stdio.h>" nogil:
    int snprintf(char* out, size_t size, const char* form, ...)


cdef void popped_begin(Popped* p, int64_t pop_ms) noexcept nogil:
    memset(p, 0, sizeof(Popped) - 3 * sizeof(Note))
    p.starts.length = p.messages.length = p.orders.length = 0
    p.pop_ms = pop_ms


cdef void note(Note* n, const char* form, int32_t flag, int64_t a, int64_t b) noexcept nogil:
    cdef int left = POP_TEXT_BYTES_MAX - <int> n.length
    cdef int bytes
    if n.length > 0 and left > 1:
        n.text[n.length] = c';'
        n.length += 1
        left -= 1
    bytes = snprintf(n.text + n.length, left, form, flag, <long long> a, <long long> b)
    n.length += bytes if bytes < left else 0


cdef void note_order(Note* n, int32_t flag, int32_t queue_id, int64_t offset,
                     int32_t times) noexcept nogil:
    cdef int left = POP_TEXT_BYTES_MAX - <int> n.length
    cdef int bytes = snprintf(n.text + n.length, left, b"%s%d qo%d%%%lld %d",
                              b";" if n.length > 0 else b"", flag, queue_id, <long long> offset,
                              times)
    n.length += bytes if bytes < left else 0


cdef void look_again(Popped* p, int64_t at_ms) noexcept nogil:
    if p.visible_ms == 0 or at_ms < p.visible_ms:
        p.visible_ms = at_ms
