"""SendResult: where a message went. One object for each message; texts are made on first use.

    result.status           SEND_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE
    result.message_id       the sender's (UNIQ_KEY); result.offset_message_id the broker's
    result.queue            MessageQueue(topic, broker_name, queue_id); result.queue_offset
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.client.message cimport Message
from cext.client.reply cimport Reply
from cext.client.state cimport SLOT_ID_BYTES, Slot
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX


cdef class SendResult:
    cdef readonly int code
    cdef readonly str topic
    cdef readonly str broker_name
    cdef readonly int32_t queue_id
    cdef readonly int64_t queue_offset
    cdef Reply reply                 # None when the slot held everything
    cdef int32_t index               # of the message in its batch; -1: stands for the batch
    cdef uint8_t unique_bytes
    cdef uint8_t id_bytes
    cdef uint8_t unique[MESSAGE_ID_BYTES_MAX]
    cdef uint8_t id[SLOT_ID_BYTES]

# Result of a single send that was answered with SUCCESS and nothing unusual.
cdef SendResult result_of_slot(const Slot* slot, str topic, str broker_name, Message message)

# Result from an answer that was kept whole. first_offset: queue offset of its first message.
cdef SendResult result_of_reply(Reply reply, str topic, str broker_name, Message message,
                                int32_t queue_id, int64_t first_offset, int32_t index)
