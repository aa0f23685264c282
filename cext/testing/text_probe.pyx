"""Text probe: strings and numbers of headers and properties, one at a time.

    text_copied(b"K\\\\u0001v", True, 100)     b"K\\x01v"
    integer_of(b"12"), double_of(b"1e3")    (12, 1000.0), as Java reads them
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.base.status cimport Status
from cext.wire.base64url cimport base64url, base64url_read
from cext.wire.java_number cimport java_double, java_integer
from cext.wire.text cimport (
    Text,
    text_copy,
    text_equals,
    text_i32,
    text_i64,
    text_is_true,
    text_of,
)
from cext.wire.topic_name cimport is_topic_name


cdef Text text_from(bytes data, bint escaped):
    cdef Text text = text_of(<const uint8_t*>data, <uint32_t>len(data))
    text.escaped = escaped
    return text


def text_copied(bytes data not None, bint escaped, uint32_t capacity) -> bytes | int:
    """The text with its escapes undone, in a buffer of this capacity; or the status."""
    cdef Text text = text_from(data, escaped)
    cdef bytearray out = bytearray(capacity + 1)     # one more, which must stay untouched
    cdef int32_t length = text_copy(&text, <uint8_t*><char*>out, capacity)
    if out[capacity] != 0:
        raise AssertionError("text_copy wrote beyond its capacity")
    return bytes(out[:length]) if length >= 0 else length


def text_is(bytes data not None, bint escaped, bytes name not None) -> bool:
    cdef Text text = text_from(data, escaped)
    return text_equals(&text, name, <uint32_t>len(name))


def text_number(bytes data not None, int bits, bint escaped=False) -> int | None:
    """The number, of 32 or 64 bits; None when malformed."""
    cdef Text text = text_from(data, escaped)
    cdef int64_t wide = 0
    cdef int32_t narrow = 0
    if bits == 64:
        return wide if text_i64(&text, &wide) == Status.OK else None
    return narrow if text_i32(&text, &narrow) == Status.OK else None


def text_true(bytes data not None) -> bool:
    cdef Text text = text_from(data, False)
    return text_is_true(&text)


def integer_of(bytes text not None, int bits=32) -> int | None:
    """Integer.valueOf or Long.valueOf; None when Java throws."""
    cdef object half = 1
    cdef int64_t least = -(half << (bits - 1))
    cdef int64_t most = (half << (bits - 1)) - 1
    cdef int64_t out
    if java_integer(<const uint8_t*> <char*> text, <uint32_t> len(text), least, most,
                    &out) != Status.OK:
        return None
    return out


def double_of(bytes text not None) -> float | None:
    """Double.valueOf; None when Java throws."""
    cdef double out
    if java_double(<const uint8_t*> <char*> text, <uint32_t> len(text), &out) != Status.OK:
        return None
    return out


def base64url_encoded(bytes data not None) -> bytes:
    out = bytearray((len(data) + 2) // 3 * 4)
    base64url(<const uint8_t*> <char*> data, <uint32_t> len(data), <uint8_t*> <char*> out)
    return bytes(out)


def base64url_decoded(bytes text not None) -> bytes | None:
    out = bytearray(text)
    cdef int32_t written = base64url_read(<const uint8_t*> <char*> out, <uint32_t> len(out),
                                          <uint8_t*> <char*> out)
    return bytes(out[:written]) if written >= 0 else None


def topic_named(bytes name not None) -> bool:
    return is_topic_name(<const uint8_t*>name, <uint32_t>len(name))
