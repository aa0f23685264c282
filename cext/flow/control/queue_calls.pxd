"""Queue calls: where consume queues begin and end, and which part of them is in memory.

rmq/broker/core_seam.py says what each promises (QueueCalls); control_side.pxd how a call is made.
"""
from libc.stdint cimport int32_t

from cext.flow.append.appender cimport Appender
from cext.flow.control.topic_calls cimport TopicCalls
from cext.store.queues.consume_queue cimport Queue
from cext.wire.text cimport Text

cdef class QueueCalls(TopicCalls):
    pass

# For the functions of other calls that run in the reactor. NULL: no such topic or queue.
cdef Queue* queue_of(Appender s, const Text* topic, int32_t queue_id) noexcept nogil
