# Event loop: what producer, consumer and popper have in common. One thread, no GIL; Python lends it
# connections and asks it to run for a while.
#
#   begin        the first requests
#   until the time is up, or `ended`:
#     send_due   puts what is due by the clock into the connections' output
#     wait       for events, at most poll_timeout_ns
#     serve      for each ready connection: one recv, take_reply for each answer, refill, one send
#
# A subclass makes the requests and treats the answers; it overrides the six methods below. When a
# connection breaks, its open requests count as failures, and the others go on.
#
# Example, a window of one: take_reply counts the answer, refill puts in the next request.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer
from cext.load.tally cimport Tally
from cext.wire.reply_reader cimport ReplyFrame, ReplyReader

cdef enum:
    WAIT_NS_MAX = 100_000_000    # no wait is longer


cdef class EventLoop:
    cdef list sockets            # keeps the file descriptors of the peers open
    cdef Peer* peers             # owned
    cdef uint32_t peer_count
    cdef uint32_t live_count     # peers whose connection is not broken
    cdef int epoll_fd            # owned
    cdef ReplyReader reader      # owned
    cdef bint fixed_slots        # each slot belongs to one queue or pop, not to any request
    cdef bint started
    cdef int64_t left_ns         # when loop() last returned
    # since reset_stats()
    cdef int64_t stats_ns        # when it was called
    cdef int64_t last_answer_ns
    cdef Tally failures
    cdef readonly Histogram latency  # ns from start (or due time) to answer

    cdef int open_peers(self, list sockets, uint64_t input_bytes, uint64_t output_bytes,
                        uint32_t slots, bint in_order) except -1
    cdef dict shared_stats(self)
    cdef int reset_shared_stats(self) except -1
    cdef void lose(self, Peer* peer) noexcept nogil
    cdef void serve(self, Peer* peer, uint32_t events) noexcept nogil
    cdef void take_replies(self, Peer* peer, int64_t now) noexcept nogil
    # Sends what has been put into the peers' output.
    cdef void flush_all(self) noexcept nogil
    cdef void loop(self, int64_t until) noexcept nogil

    # Subclasses override these. begin and send_due end with flush_all when they put something in.
    cdef void begin(self, int64_t now) noexcept nogil
    cdef void send_due(self, int64_t now) noexcept nogil
    cdef int64_t poll_timeout_ns(self, int64_t now) noexcept nogil
    # Takes the answer to the request of this slot, which is free again.
    cdef void take_reply(self, Peer* peer, int32_t slot, ReplyFrame* reply,
                         int64_t now) noexcept nogil
    # Called when all answers that came with one recv have been taken.
    cdef void refill(self, Peer* peer) noexcept nogil
    cdef bint ended(self) noexcept nogil
