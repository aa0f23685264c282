# Popper: the pop loop. Each slot of a connection pops, acknowledges what came in one batch, and
# pops again, as RocketMQ 5's proxy does; `window` slots a connection.
#
#   pop 200050     any queue of a topic; what comes is walked record by record
#   ack 200151     for each check point of the reply (a queue, or one of the retry topic's) the
#                  offsets given, as base64 of bits
#
# Messages count when their ack was answered 0. A pop that finds nothing (210, 209) rests 10 ms; it
# is no failure.
#
# Example: msgOffsetInfo "0 3 100,101,103" with startOffsetInfo "0 3 100" makes the ack {"b":"Cw==",
# "q":3,"r":"0","so":100,..}: bits 0, 1 and 3.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer
from cext.load.reply cimport Reply, ReplyHints
from cext.load.tally cimport Tally
from cext.load.template cimport FrameSet


cdef struct PopSlot:
    uint32_t messages            # of the open ack; 0: a pop is open, or the slot rests
    bint resting


cdef struct NameParts:           # of one topic: what stands in each of its acks
    const uint8_t* bytes         # borrowed: "c":"group","t":"topic",
    uint32_t length


cdef class Popper:
    cdef FrameSet frames         # a pop template per topic; slot i pops from topic i % count
    cdef list sockets
    cdef list ack_names          # keeps NameParts alive
    cdef bytes ack_tail          # ],"brokerName":"broker-a"}
    cdef const uint8_t* tail     # its bytes
    cdef uint32_t tail_length
    cdef NameParts* names        # owned; one per frame
    cdef Peer* peers             # owned
    cdef PopSlot* slots          # owned; slot j of peer i: i * window + j
    cdef uint32_t peer_count
    cdef uint32_t live_count
    cdef uint32_t window
    cdef uint32_t resting_count
    cdef int epoll_fd            # owned
    cdef ReplyHints hints        # of the last answer
    cdef bint started
    cdef uint64_t limit          # messages to take at most; 0: no limit
    cdef uint64_t taken          # messages acknowledged, ever
    # since reset_stats()
    cdef int64_t stats_ns
    cdef int64_t last_answer_ns
    cdef uint64_t pops           # answers of pops, of any code
    cdef uint64_t found          # answers with messages
    cdef uint64_t acks           # answers of acks with code 0
    cdef uint64_t messages
    cdef uint64_t again          # of the retry topic
    cdef uint64_t body_bytes
    cdef uint64_t reply_bytes
    cdef uint64_t empty          # codes 209, 210
    cdef Tally failures
    cdef readonly Histogram latency  # ns from pop to answer, with messages only

    cdef bint finished(self) noexcept nogil
    cdef void rest(self, PopSlot* slot) noexcept nogil
    cdef void ask(self, Peer* peer, uint32_t number, int64_t now) noexcept nogil
    cdef bint acknowledge(self, Peer* peer, uint32_t number, const Reply* reply,
                          int64_t now) noexcept nogil
    cdef void take_pop(self, Peer* peer, uint32_t number, const Reply* reply, int64_t now,
                       int64_t waited_ns) noexcept nogil
    cdef void take_ack(self, Peer* peer, uint32_t number, const Reply* reply,
                       int64_t now) noexcept nogil
    cdef void take_answers(self, Peer* peer, int64_t now) noexcept nogil
    cdef void lose(self, Peer* peer) noexcept nogil
    cdef void serve(self, Peer* peer, uint32_t events) noexcept nogil
    cdef void ask_all(self, bint only_resting) noexcept nogil
    cdef void loop(self, int64_t until) noexcept nogil
