"""Message: a message to send. MessageExt: a received message.

A Message costs one object and its body; properties become bytes when it is sent. A MessageExt costs
one object: it points into the Reply it came with, which lives as long as one of its messages. Body,
properties and ids become Python objects on first use.

Both can be pickled and copied. A copy of a Message keeps its unique key; a copy of a MessageExt has
its own record, without the others of its answer.

    property string   TAGS 01 a 02 KEYS 01 k1 k2 02 name 01 value 02 .. UNIQ_KEY 01 7F00.. 02
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.client.reply cimport Reply
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX

cdef class Message:
    cdef public str topic
    cdef readonly bytes body
    cdef public str tags             # one tag, or None
    cdef str joined_keys             # separated by blanks, or None
    cdef dict extra                  # all other properties; None: none
    cdef public int32_t flag         # the user's
    cdef public bint wait_store_msg_ok
    cdef uint8_t unique_bytes        # 0: no key yet
    cdef uint8_t unique[MESSAGE_ID_BYTES_MAX]

    # Gives the message its unique key, unless it has one.
    cdef void identify(self, int64_t now_ms) noexcept
    # Size of the property string; -1 with an exception when a property cannot be sent.
    cdef int32_t properties_size(self) except -1
    # Writes the property string: that many bytes.
    cdef uint8_t* write_properties(self, uint8_t* out) except NULL


cdef class MessageExt:
    cdef Reply owner
    cdef const uint8_t* body_at
    cdef const uint8_t* properties_at
    cdef const uint8_t* born_host_at
    cdef const uint8_t* store_host_at
    cdef readonly uint32_t stored_body_bytes
    cdef uint32_t properties_bytes
    cdef readonly uint32_t store_size
    cdef public str topic
    cdef public str broker_name
    cdef readonly int32_t queue_id
    cdef readonly int32_t flag
    cdef readonly int32_t sys_flag
    cdef public int32_t reconsume_times
    cdef readonly int64_t queue_offset
    cdef readonly int64_t commit_log_offset
    cdef readonly int64_t born_timestamp
    cdef readonly int64_t store_timestamp
    cdef readonly int64_t prepared_transaction_offset
    cdef object read_body
    cdef dict read_properties

    cdef object value_of(self, const char* name)


# All records of a body, or ProtocolError when they make no sense.
cdef list messages_of(Reply reply, str broker_name, bint check_crc)
