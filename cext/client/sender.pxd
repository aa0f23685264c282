"""Sender: the hot half of a producer; and Target, one queue that it sends to.

    send_async(message, callback)
      no batching    frame: Target.single_head + sysFlag, born time, flag, properties + body,
                     straight into the link's buffer
      batching       the message is appended to the Target's open Batch; the batch is sealed when
                     it is full (here) or when its time has come (the engine, without the GIL)

    heads, built once for each queue (binary header; numbers that change are patched or follow):
      single  8 length+mark | 21 fixed | a b c d e j k m n    then f g h i per message
      batch   8 length+mark | 21 fixed | a b c d e f g h j k m n    g: 13 digits, patched

Sends under way are counted by messages and bytes (`gate`). When there are too many, send_async
waits without the GIL, unless it was called from a callback or an event loop, because others wait
for these: an event loop asks `has_room` first.

Target.completed tells how a send ended, in the thread that delivers the mailbox: the callback, a
Future or a SendWaiter gets a SendResult or an exception. A send that another broker may take goes
to Sender._ended (Python) first.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.client.engine cimport Engine
from cext.client.mutex cimport Condition, Lock
from cext.client.mailbox cimport Mailbox, Completion
from cext.client.message cimport Message
from cext.client.state cimport Batch, Slot


cdef class SendWaiter:
    """A thread that waits for one send."""
    cdef readonly object result
    cdef readonly object error
    cdef readonly bint done


# A queue, as far as the ends of its sends need it; Target adds the sending.
cdef class SendCompletion(Completion):
    cdef readonly Sends sender
    cdef readonly str shown          # the topic as the user knows it, without the namespace
    cdef readonly str broker_name
    cdef Batch* open                 # being filled; NULL: none. Read it with the GIL only

    cdef int batch_completed(self, Slot* slot) except -1


# A producer's sends, as far as their counting and their ends need it; Sender adds the sending.
cdef class Sends:
    cdef readonly Engine engine
    cdef readonly Mailbox mailbox    # where ends of asynchronous sends are told
    cdef public uint32_t batch_bytes
    cdef public int64_t linger_us
    cdef public int timeout_ms
    cdef public bint tracks_latency
    cdef public bint retries_not_stored
    cdef Lock gate_lock
    cdef Condition gate_opened
    cdef uint32_t gate_waiters       # guarded by the GIL
    cdef uint32_t gate_count         # guarded by gate_lock
    cdef public int64_t messages_max
    cdef public int64_t bytes_max
    cdef readonly int64_t messages_in_flight
    cdef readonly int64_t bytes_in_flight

    cdef bint is_full(self, int64_t bytes) noexcept
    cdef int enter(self, int64_t bytes) except -1
    cdef void leave(self, int64_t messages, int64_t bytes) noexcept
    cdef int finish(self, SendCompletion target, Message message, object callback, object result,
                    object error, Slot* slot) except -1


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


cdef class Sender(Sends):
    cdef readonly dict topics        # topic -> TopicQueues
    cdef public bint direct          # plain sends need nothing from Python (no hook, running, ..)
    cdef public bint batching
    cdef public int retries
    cdef public uint32_t compress_from
    cdef public uint32_t body_max
