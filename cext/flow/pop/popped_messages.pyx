"""Popped messages. See popped_messages.pxd."""
from libc.string cimport memcpy, memset

from cext.base.check cimport check
from cext.base.decimal cimport put_decimal, put_decimal_behind

cdef enum:
    ENTRY_BYTES_MAX = 48        # of the longest: ;2 qo65535%9223372036854775807 2147483647


cdef void popped_begin(Popped* p, int64_t pop_ms) noexcept nogil:
    memset(p, 0, sizeof(Popped) - 3 * sizeof(Note))
    p.starts.length = p.messages.length = p.orders.length = 0
    p.pop_ms = pop_ms


cdef uint8_t* note_begin(Note* n) noexcept nogil:
    """Where the text's next entry goes; a semicolon stands between two."""
    cdef uint8_t* at = <uint8_t*> n.text + n.length
    check(n.length + ENTRY_BYTES_MAX <= POP_TEXT_BYTES_MAX,
          b"the texts of a pop's reply have room for all of its messages", n.length,
          POP_TEXT_BYTES_MAX)
    if n.length > 0:
        at[0] = c';'
        at += 1
    return at


cdef void note_end(Note* n, uint8_t* at, int64_t last) noexcept nogil:
    """The entry's last number, behind a space."""
    n.length = <uint32_t> (put_decimal_behind(at, c' ', last) - <uint8_t*> n.text)


cdef void note(Note* n, int32_t flag, int32_t queue_id, int64_t number) noexcept nogil:
    cdef uint8_t* at = put_decimal(note_begin(n), flag)
    note_end(n, put_decimal_behind(at, c' ', queue_id), number)


cdef void note_next(Note* n, int64_t number) noexcept nogil:
    cdef uint8_t* at = <uint8_t*> n.text + n.length
    n.length = <uint32_t> (put_decimal_behind(at, c',', number) - <uint8_t*> n.text)


cdef void note_order(Note* n, int32_t flag, int32_t queue_id, int64_t offset,
                     int32_t times) noexcept nogil:
    cdef uint8_t* at = put_decimal(note_begin(n), flag)
    memcpy(at, b" qo", 3)
    at = put_decimal(at + 3, queue_id)
    note_end(n, put_decimal_behind(at, c'%', offset), times)


cdef void look_again(Popped* p, int64_t at_ms) noexcept nogil:
    if p.visible_ms == 0 or at_ms < p.visible_ms:
        p.visible_ms = at_ms
