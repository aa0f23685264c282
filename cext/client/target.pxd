"""Target: one queue that a sender sends to. TopicQueues: the queues of one topic.

    no batching    frame: Target.single_head + sysFlag, born time, flag, properties + body,
                   straight into the link's buffer
    batching       the message is appended to the Target's open Batch; the batch is sealed when
                   it is full (here) or when its time has come (the loop, without the GIL)

    heads, built once for each queue (binary header; numbers that change are patched or follow):
      single  8 length+mark | 21 fixed | a b c d e j k m n    then f g h i per message
      batch   8 length+mark | 21 fixed | a b c d e f g h j k m n    g: 13 digits, patched
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.client.mailbox cimport Mailbox
from cext.client.message cimport Message
from cext.client.sends cimport SendCompletion
from cext.client.state cimport Batch, Slot


cdef class Target(SendCompletion):
    cdef readonly str topic          # as on the wire
    cdef readonly str address
    cdef readonly int32_t queue_id
    cdef readonly int32_t link
    cdef bytes single_head
    cdef bytes batch_head
    cdef uint32_t born_at            # place of the born time in batch_head

    cdef int submit(self, Message message, bytes body, int sys_flag, object callback,
                    Mailbox mailbox, int64_t timeout_us, int attempts) except -1
    cdef int gather(self, Message message, object callback) except -1
    cdef int submit_batch(self, list messages, list callbacks, object callback, Mailbox mailbox,
                          int64_t timeout_us, int attempts) except -1
    cdef Batch* new_batch(self, Slot* slot, uint32_t capacity, object callback, Mailbox mailbox,
                          int attempts) except NULL


cdef class TopicQueues:
    """The queues of one topic, used in turn; sends stay with a queue until its batch is sealed."""
    cdef readonly list targets
    cdef readonly object route       # the route it was made from
    cdef uint32_t turn
    cdef Target current

    cdef Target take(self)
