# Puller: reads one range of one queue of a broker by pulls: [next_offset, end_offset).
#
# One pull is always under way ahead of the reader: it leaves as soon as the header of the answer
# before it is here, so that the broker works and the kernel receives while that answer is decoded
# and handed to Spark. Records are decoded as they come, a piece of an answer at a time: while they
# are in the processor's cache, and in memory that does not grow with the answers. The fd is
# non-blocking and borrowed from a Python socket. With TLS the bytes come through Python
# (`receive_into`); decoding is the same.
#
# Example: a queue of 100, answers of 32: fill() -> BATCH ... until next_offset is 100, then END.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.arrow.decoder cimport Decoder
from cext.wire.reply_reader cimport ReplyFrame, ReplyReader

# Results of fill(). BATCH: the columns are full. END: the range is read. The caller must judge all
# others, by code, remark, next_offset, min_offset and max_offset.
cpdef enum Outcome:
    BATCH = 0
    END = 1
    NOTHING_THERE = 2           # the queue ends (code 19), or its answer does not lead on
    # The offset is outside the queue, or (code 19) in a hole of it: the queue goes on at moved_to.
    OFFSET_MOVED = 3
    REFUSED = 4                 # any other code; remark holds the answer's header
    LOST = 5                    # the connection is lost; `error`: errno, 0: broker hung up
    DAMAGED = 6                 # FAIL_FAST met a damaged record: decoder.problem

cdef class Puller:
    cdef Decoder decoder
    cdef tuple parts            # of a request: before, between and after its two numbers
    cdef const char* before     # the same, borrowed
    cdef const char* between
    cdef const char* after
    cdef uint8_t* request       # owned; room for one
    cdef size_t request_bytes
    cdef object sign            # (queue offset, opaque) -> bytes of one frame; None: not signed
    cdef object receive_into    # memoryview -> count, for TLS; None: recv on fd
    cdef object send_all        # bytes -> None, for TLS; None: send on fd
    cdef int fd
    cdef int timeout_ms         # longest time without a byte from the broker
    cdef int rest_ms            # the same, for the rest of an answer beyond the range's end
    cdef readonly bint in_step  # after END: no part of an answer is still to come
    cdef ReplyReader reader     # without shapes: answers are few and large
    cdef uint8_t* input         # owned
    cdef uint64_t capacity
    cdef uint64_t input_start, input_end
    cdef int32_t opaque         # of the pull under way; 0: none
    cdef uint64_t records_start, records_end    # of the decoded answer: its part in `input`
    cdef uint64_t body_left     # bytes of its records that are not received yet
    cdef uint64_t wanted        # bytes from records_start on that must be here to go on
    cdef readonly int64_t next_offset           # of the next row
    cdef int64_t answer_next    # where the queue goes on after the decoded answer
    cdef readonly int64_t end_offset
    cdef int64_t first_offset
    cdef readonly int64_t min_offset, max_offset        # by the last answer; -1: unknown
    cdef readonly int64_t suggested_broker_id   # where to read on, by the last answer
    cdef readonly int32_t code  # of the last answer
    cdef readonly bytes remark
    cdef readonly int64_t answers, bytes_received
    cdef readonly int error

    cdef int _receive(self) noexcept nogil
    cdef int _make_room(self, uint64_t start, uint64_t wanted) noexcept nogil
    cdef uint64_t _whole_records(self) noexcept nogil
    cdef int _receive_body(self) noexcept nogil
    cdef int _end(self) except -100
    cdef int _read_frame(self, ReplyFrame* out) noexcept nogil
    cdef int _ask(self, int64_t offset) except -100
    cdef size_t _write_request(self, int64_t offset) noexcept nogil
    cdef int _send(self, const uint8_t* at, size_t left) noexcept nogil
    cdef int _take_answer(self, ReplyFrame* reply) except -100
