# Popper: pops, as a resting loop (resting_loop.pxd). Each slot of a connection pops, acknowledges
# all that came in one batch, and pops again, as RocketMQ 5's proxy does; a connection has `window`
# slots.
#
#   pop 200050     any queue of a topic; the messages are walked record by record
#   ack 200151     for each check point of the reply (of a queue of the topic or of the retry topic)
#                  the offsets given, as base64 of bits
#
# A message counts when its ack was answered with 0. A pop that finds nothing (210, 209) rests 10
# ms; that is not a failure.
#
# Example: msgOffsetInfo "0 3 100,101,103" with startOffsetInfo "0 3 100" makes the ack {"b":"Cw==",
# "q":3,"r":"0","so":100,..}: bits 0, 1 and 3.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cext.load.peer cimport Peer
from cext.load.resting_loop cimport RestingLoop
from cext.load.signer cimport Signer
from cext.load.template cimport FrameSet
from cext.wire.reply_reader cimport ReplyFrame


cdef struct PopSlot:
    uint32_t messages            # in the open ack; 0: a pop is open, or the slot rests
    bint resting


cdef struct NameParts:           # the names that stand in each ack of one topic
    const uint8_t* bytes         # borrowed: "c":"group","t":"topic",
    uint32_t length


cdef class Popper(RestingLoop):
    cdef FrameSet frames         # a pop template per topic; slot i pops from topic i % count
    cdef list ack_names          # keeps NameParts alive
    cdef Signer signer           # None: acks are not signed
    cdef bytes ack_head          # {"code":200151, and, when acks are signed, its fields
    cdef const uint8_t* head     # its bytes
    cdef uint32_t head_length
    cdef uint32_t signature_at   # place of the signature in it, with a signer
    cdef bytes ack_tail          # ],"brokerName":"broker-a"}
    cdef const uint8_t* tail     # its bytes
    cdef uint32_t tail_length
    cdef NameParts* names        # owned; one per frame
    cdef PopSlot* slots          # owned; slot j of peer i: i * window + j
    cdef uint32_t window
    cdef uint64_t limit          # messages to take at most; 0: no limit
    cdef uint64_t taken          # messages acknowledged, ever
    # since reset_stats()
    cdef uint64_t pops           # answers of pops, of any code
    cdef uint64_t found          # answers with messages
    cdef uint64_t acks           # answers of acks with code 0
    cdef uint64_t messages
    cdef uint64_t again          # those from the retry topic
    cdef uint64_t body_bytes
    cdef uint64_t reply_bytes
    cdef uint64_t empty          # codes 209, 210

    cdef void ask(self, Peer* peer, uint32_t number, int64_t now) noexcept nogil
    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil
    cdef bint acknowledge(self, Peer* peer, uint32_t number, ReplyFrame* reply,
                          int64_t now) noexcept nogil
    cdef void take_pop(self, Peer* peer, uint32_t number, ReplyFrame* reply, int64_t now,
                       int64_t waited_ns) noexcept nogil
    cdef void take_ack(self, Peer* peer, uint32_t number, ReplyFrame* reply,
                       int64_t now) noexcept nogil
