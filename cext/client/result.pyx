"""Results of sends (result.pxd). The results of a batch share its answer; each knows its place."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from cext.client.message cimport Message
from cext.client.reply cimport Reply
from cext.client.state cimport SLOT_ID_BYTES, Slot
from cext.wire.message_id cimport MESSAGE_ID_BYTES_MAX

STATUSES = {
    0: "SEND_OK", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT",
}


@cython.freelist(1024)
cdef class SendResult:
    """Where a message was stored, and how safely.

    topic, broker_name, queue_id   the queue that has the message; `queue` is all three
    queue_offset                   the message's number in this queue
    code                           the broker's response code; 0: as safe as the broker promises

    A batch gives one result for each of its messages.
    """

    @property
    def status(self):
        """SEND_OK, or in what way the message is less safe than the broker promises:
        FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE."""
        return STATUSES.get(self.code, str(self.code))

    @property
    def is_ok(self):
        """Whether the message is as safe as the broker promises. If not, it is stored all the same,
        and `status` says what is missing."""
        return self.code == 0

    @property
    def message_id(self):
        """The unique key that the sender gave the message (UNIQ_KEY); "" if it is not known."""
        return (<const char*>self.unique)[:self.unique_bytes].decode() if self.unique_bytes else ""

    @property
    def offset_message_id(self):
        """The broker's id of the message: the broker's address and the offset in its log."""
        if self.reply is None:
            return (<const char*>self.id)[:self.id_bytes].decode()
        text = self.reply.fields.get("msgId", "")
        if self.index < 0:
            return text
        ids = text.split(",") if len(text) < 200 else None
        if ids is None:              # all have the same length
            width = text.index(",") + 1
            return text[self.index * width:(self.index + 1) * width - 1]
        return ids[self.index] if self.index < len(ids) else ""

    @property
    def transaction_id(self):
        """The id that the broker's answer gives the transaction; without one, message_id."""
        found = None if self.reply is None else self.reply.fields.get("transactionId")
        return found or self.message_id

    @property
    def recall_handle(self):
        """The text with which a timed message can be recalled; None for any other message."""
        return None if self.reply is None else self.reply.fields.get("recallHandle")

    @property
    def region_id(self):
        """The broker's region (MSG_REGION); None if the answer was not kept, as after most sends of
        a single message."""
        return None if self.reply is None else self.reply.fields.get("MSG_REGION")

    @property
    def queue(self):
        from rmq.format.fastjson import MessageQueue
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __reduce__(self):
        return result_again, (
            type(self), self.code, self.topic, self.broker_name, self.queue_id, self.queue_offset,
            self.reply, self.index, (<const char*>self.unique)[:self.unique_bytes],
            (<const char*>self.id)[:self.id_bytes],
        ), getattr(self, "__dict__", None)

    def __repr__(self):
        return (f"SendResult({self.status}, {self.message_id}, {self.topic} {self.broker_name} "
                f"queue {self.queue_id}, offset {self.queue_offset})")


cdef SendResult result_of_slot(const Slot* slot, str topic, str broker_name, Message message):
    cdef SendResult result = SendResult.__new__(SendResult)
    result.topic = topic
    result.broker_name = broker_name
    result.queue_id = slot.queue_id
    result.queue_offset = slot.queue_offset
    result.unique_bytes = message.unique_bytes
    memcpy(result.unique, message.unique, message.unique_bytes)
    result.id_bytes = slot.id_bytes
    memcpy(result.id, slot.id, slot.id_bytes)
    return result


cdef SendResult result_of_reply(Reply reply, str topic, str broker_name, Message message,
                                int32_t queue_id, int64_t first_offset, int32_t index):
    cdef SendResult result = SendResult.__new__(SendResult)
    result.code = reply.code
    result.topic = topic
    result.broker_name = broker_name
    result.reply = reply
    result.index = index
    result.queue_id = queue_id
    result.queue_offset = first_offset + max(index, 0)
    if message is not None:
        result.unique_bytes = message.unique_bytes
        memcpy(result.unique, message.unique, message.unique_bytes)
    return result


def send_result(Reply reply not None, str topic not None, str broker_name not None,
                Message message=None):
    """The result in an answer to a single send that was stored."""
    return result_of_reply(reply, topic, broker_name, message, reply.int_field("queueId"),
                           reply.int_field("queueOffset"), -1)


def result_again(kind, int code, str topic, str broker_name, int32_t queue_id, int64_t queue_offset,
                 Reply reply, int32_t index, bytes unique not None, bytes id not None):
    """The result that SendResult.__reduce__ took apart."""
    cdef SendResult result = kind.__new__(kind)
    if len(unique) > MESSAGE_ID_BYTES_MAX or len(id) > SLOT_ID_BYTES:
        raise ValueError(f"ids of {len(unique)} and {len(id)} bytes")
    result.code = code
    result.topic = topic
    result.broker_name = broker_name
    result.queue_id = queue_id
    result.queue_offset = queue_offset
    result.reply = reply
    result.index = index
    result.unique_bytes = <uint8_t>len(unique)
    memcpy(result.unique, <const char*>unique, len(unique))
    result.id_bytes = <uint8_t>len(id)
    memcpy(result.id, <const char*>id, len(id))
    return result
