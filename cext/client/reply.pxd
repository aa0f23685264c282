"""Reply: an answer, or a request of a broker; its parts become Python objects on first use.

    reply.code; reply.remark; reply.fields["queueOffset"]; reply.body; reply.check()

It owns the frame's bytes. Messages of a pull point into them (cext/client/message) and keep the
Reply alive.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.client.state cimport Slot
from cext.wire.header cimport Header
from cext.wire.text cimport Text

# Engine thread. Puts id, queue and offset of a stored message into the slot. False when the answer
# says something else or more; then the whole frame must be kept.
cdef bint keep_send_answer(Slot* slot, const Header* header) noexcept nogil

# Takes the frame out of the slot. Its header has been found well-formed before.
cdef Reply reply_take(Slot* slot)


cdef class Reply:
    cdef uint8_t* frame              # owned
    cdef uint32_t frame_bytes
    cdef const uint8_t* body_at      # inside `frame`
    cdef readonly uint32_t body_bytes
    cdef readonly int code           # of the response, or of the broker's request
    cdef readonly int opaque
    cdef readonly int flag           # bit 0 response, bit 1 one-way
    cdef readonly int version        # of the peer
    cdef readonly int serialize_type
    cdef readonly int64_t waited_us  # from submit until it was taken from its slot
    cdef dict read_fields            # None: not read yet
    cdef object read_remark
    cdef bytes read_body

    cdef int open(self) except -1
    cdef int read(self) except -1

# A text of a header as str; None when absent.
cdef object text_str(const Text* text)
