"""Sends: a producer's sends under way. They are counted in at a gate, and told when they end.

Sends under way are counted by messages and bytes (`gate`). When there are too many, send_async
waits without the GIL, unless it was called from a callback or an event loop, because others wait
for these: an event loop asks `has_room` first.

SendCompletion.completed tells how a send ended, in the thread that delivers the mailbox: the
callback, a Future or a SendWaiter gets a SendResult or an exception. A send that another broker may
take goes to Sends._ended (Python) first.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t

from cext.client.engine cimport Engine
from cext.client.mutex cimport Condition, Lock
from cext.client.mailbox cimport Completion, Mailbox
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
