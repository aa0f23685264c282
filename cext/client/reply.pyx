"""Answers as Python sees them (reply.pxd).

    >>> reply_of(frame).fields
    {'queueId': '3', ...}
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from cext.base.clock cimport monotonic_us
from cext.base.status cimport Status
from cext.client.state cimport SLOT_ID_BYTES, Slot
from cext.wire.codes cimport FLAG_ONE_WAY
from cext.wire.frame cimport Frame, find_frame
from cext.wire.header cimport ExtField, Header
from cext.wire.reply_reader cimport read_reply_header
from cext.wire.text cimport Text, text_copy, text_i32, text_i64

from rmq.errors import ProtocolError, RemoteError

cdef object MISSING = object()


cdef inline bint named(const ExtField* field, const char* name, uint32_t length) noexcept nogil:
    return field.key.length == length and memcmp(field.key.bytes, name, length) == 0


cdef bint read_send_answer(Slot* slot, const Header* header) noexcept nogil:
    cdef const ExtField* field
    cdef const Text* value
    cdef int found = 0, i
    for i in range(header.ext_count):
        field = &header.ext[i]
        value = &field.value
        if value.bytes == NULL:
            continue
        if named(field, b"msgId", 5):
            if value.escaped or not 0 < value.length <= SLOT_ID_BYTES:
                return False
            memcpy(slot.id, value.bytes, value.length)
            slot.id_bytes = <uint8_t>value.length
            found += 1
        elif named(field, b"queueOffset", 11):
            if text_i64(value, &slot.queue_offset) != Status.OK:
                return False
            found += 1
        elif named(field, b"queueId", 7):
            if text_i32(value, &slot.queue_id) != Status.OK:
                return False
            found += 1
        elif named(field, b"recallHandle", 12):
            return False
    return found == 3


cdef bint keep_send_answer(Slot* slot, const Header* header) noexcept nogil:
    if header.code == 0 and read_send_answer(slot, header):
        return True
    slot.id_bytes = 0           # whoever takes the slot reads its frame
    return False


cdef object text_str(const Text* text):
    """The text as str, None when it is absent; bytes that are not UTF-8 become U+FFFD."""
    cdef int32_t length
    cdef bytes copy
    if text.bytes == NULL:
        return None
    if not text.escaped:
        return (<const char*>text.bytes)[:text.length].decode("utf-8", "replace")
    copy = bytes(text.length)
    length = text_copy(text, <uint8_t*><char*>copy, text.length)
    if length < 0:
        raise ProtocolError("a text with a broken escape")
    return copy[:length].decode("utf-8", "replace")


cdef Reply reply_take(Slot* slot):
    cdef Reply reply = Reply.__new__(Reply)
    reply.frame = slot.frame
    reply.frame_bytes = slot.frame_bytes
    slot.frame = NULL
    reply.waited_us = monotonic_us() - slot.started_us if slot.started_us else 0
    reply.open()
    return reply


@cython.no_gc_clear                  # __dealloc__ needs all its fields
cdef class Reply:
    def __dealloc__(self):
        free(self.frame)

    cdef int open(self) except -1:
        cdef Frame frame
        cdef Header header
        cdef int status = find_frame(self.frame, self.frame_bytes, self.frame_bytes, &frame)
        if status == Status.OK:
            status = read_reply_header(&frame, &header)
        if status != Status.OK:
            raise ProtocolError("not a frame of RocketMQ")
        self.body_at = frame.body
        self.body_bytes = frame.body_bytes
        self.serialize_type = frame.serialize_type
        self.code = header.code
        self.opaque = header.opaque
        self.flag = header.flag
        self.version = header.version
        return 0

    cdef int read(self) except -1:
        """Makes the texts of the header, once."""
        cdef Frame frame
        cdef Header header
        cdef int i
        if self.frame == NULL:
            raise ProtocolError("a Reply without a frame")
        find_frame(self.frame, self.frame_bytes, self.frame_bytes, &frame)
        read_reply_header(&frame, &header)
        fields = {}
        for i in range(header.ext_count):
            value = text_str(&header.ext[i].value)
            if value is not None:
                fields[text_str(&header.ext[i].key)] = value
        self.read_remark = text_str(&header.remark)
        self.read_fields = fields
        return 0

    @property
    def fields(self):
        if self.read_fields is None:
            self.read()
        return self.read_fields

    @property
    def remark(self):
        if self.read_fields is None:
            self.read()
        return self.read_remark

    @property
    def body(self):
        """The body; a copy, made once."""
        if self.read_body is None:
            self.read_body = (<const char*>self.body_at)[:self.body_bytes]
        return self.read_body

    @property
    def is_one_way(self):
        return bool(self.flag & FLAG_ONE_WAY)

    def int_field(self, str name not None, default=MISSING):
        """The field as a number; ProtocolError when it is none, or absent without a default."""
        text = self.fields.get(name)
        if text is None:
            if default is MISSING:
                raise ProtocolError(f"field {name} is missing from an answer with code {self.code}")
            return default
        try:
            return int(text)
        except ValueError:
            raise ProtocolError(f"field {name} is {text[:40]!r}, not a number") from None

    def check(self):
        """Itself when the code is SUCCESS; RemoteError otherwise."""
        if self.code != 0:
            raise RemoteError(self.code, self.remark or "no reason given")
        return self

    def __reduce__(self):
        return reply_again, ((<const char*>self.frame)[:self.frame_bytes], self.waited_us)

    def __repr__(self):
        return f"Reply(code={self.code}, fields={self.fields}, body of {self.body_bytes} bytes)"


def reply_of(bytes frame not None):
    """A Reply from a whole frame with its length bytes; ProtocolError when it is none."""
    cdef Reply reply = Reply.__new__(Reply)
    reply.frame = <uint8_t*>malloc(max(len(frame), 1))
    if reply.frame == NULL:
        raise MemoryError()
    memcpy(reply.frame, <const char*>frame, len(frame))
    reply.frame_bytes = <uint32_t>len(frame)
    reply.open()
    return reply


def reply_again(bytes frame not None, int64_t waited_us):
    """The Reply that Reply.__reduce__ took apart."""
    cdef Reply reply = reply_of(frame)
    reply.waited_us = waited_us
    return reply
