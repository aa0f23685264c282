"""Pop batch: the messages of one pop: noted down as given, and gathered for its reply.

Messages of the topic itself are sent from where they lie. Those of a retry topic are copied, and
rewritten as clients see them: of the topic itself, with their POP_CK. A client finds a message's
check point by topic and queue. Those of the retry topic would be mistaken for the topic's, so each
such message carries the text itself (extra info, pop_request.pxd).
"""
from libc.stdint cimport int32_t, int64_t

from cext.flow.pop.pop_job cimport PopJob
from cext.flow.pop.pop_service cimport PopService
from cext.flow.pop.popped_messages cimport Popped
from cext.flow.pull.queue_entry_scan cimport Found
from cext.flow.tables.topic_table cimport Topic
from cext.store.queues.consume_queue cimport Queue

cdef enum:
    REWRITE_ADDS_MAX = 800      # bytes: a longer topic, POP_CK with a broker name of 256

# Gives what was found from `start` on. `flag`: 0, or the kind of retry topic that it comes from.
cdef void give(PopService s, PopJob* job, Popped* p, Topic* topic, Queue* queue, int64_t start,
               Found* found, int32_t flag) noexcept nogil

cdef inline int64_t given_bytes_max(PopService s) noexcept nogil:
    """Largest record that a pop gives: one not acknowledged is appended again, and copied into a
    jumbo buffer."""
    return (min(s.append.log.max_record_bytes, <int64_t> s.turn.net.jumbo_bytes)
            - <int64_t> REWRITE_ADDS_MAX)
