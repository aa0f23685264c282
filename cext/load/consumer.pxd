# Consumer: pulls, as a resting loop (resting_loop.pxd). It has one open pull for each queue, as a
# RocketMQ client has. Queues are dealt out to the connections in turn: a client has one connection
# to a broker, on which the pulls of all its queues are open, told apart by their opaques
# (peer.pxd). Pulls that follow the answers of one recv leave with one send.
#
# Example, 2 groups that read queues x and y, each over a connection of its own: frames of x by
# group 0, x by 1, y by 0, y by 1, and two connections.
#
# After an answer the same queue is asked again from nextBeginOffset. What ends a queue's round:
#   first_offset .. end_offset given and reached   rewind: starts over; else done
#   code 19 (nothing there) with stop_at_tail      done
# Codes 19, 20, 21 are not failures. A queue that got 19 or a failure rests 10 ms before it is asked
# again; if the broker held its pull (long polling), it is asked at once.
#
# With `end_to_end` it counts how long each message took from end to end: from the moment in its
# unique key, at which it was due (producer.pxd), until the answer with the message is there.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.load.histogram cimport Histogram
from cext.load.peer cimport Peer
from cext.load.resting_loop cimport RestingLoop
from cext.load.template cimport FrameSet
from cext.wire.reply_reader cimport ReplyFrame


cdef struct Cursor:
    int64_t next_offset          # of the next pull
    int64_t first_offset         # where it started
    int64_t end_offset           # behind the last one wanted; -1: no end
    bint resting                 # it is asked again with all that rest
    int32_t done


cdef class Consumer(RestingLoop):  # queue i: peer i % peer_count, slot i // peer_count
    cdef FrameSet frames         # one pull template per queue
    cdef Cursor* cursors         # owned; one per queue
    cdef uint32_t done_count
    cdef bint check_crc
    cdef bint rewind
    cdef bint stop_at_tail
    cdef uint64_t limit          # messages to take at most; 0: no limit
    cdef uint64_t taken          # messages taken, ever
    cdef bint end_to_end_counted
    # since reset_stats()
    cdef readonly Histogram end_to_end
    cdef uint64_t pulls          # answers of any code
    cdef uint64_t found          # answers with code 0
    cdef uint64_t messages
    cdef uint64_t body_bytes
    cdef uint64_t reply_bytes
    cdef uint64_t empty          # codes 19, 20, 21
    cdef uint64_t skipped        # queue offsets jumped over inside answers (filtered, or lost)

    cdef void ask(self, Peer* peer, uint32_t queue, int64_t now) noexcept nogil
    cdef void ask_each(self, bint only_resting, int64_t now) noexcept nogil
    cdef void end_round(self, Cursor* cursor) noexcept nogil
    cdef void count_end_to_end(self, const uint8_t* records, uint32_t length) noexcept nogil
    cdef void take_found(self, Cursor* cursor, ReplyFrame* reply) noexcept nogil
    cdef bint take_answer(self, Cursor* cursor, ReplyFrame* reply,
                          int64_t waited_ns) noexcept nogil
