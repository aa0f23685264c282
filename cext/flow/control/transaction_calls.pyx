"""Transaction calls. See transaction_calls.pxd."""
from array import array

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cext.base.status cimport NOT_FOUND, OK, raise_status
from cext.flow.context.call_block cimport Block, block_numbers, block_take
from cext.flow.context.control_link cimport CallFn
from cext.flow.control.control_side cimport borrowed
from cext.flow.control.queue_calls cimport queue_of
from cext.flow.transaction.check_backs cimport CheckHalves, check_backs_run
from cext.flow.transaction.check_table cimport check_table_put
from cext.flow.transaction.open_halves cimport (
    HalfMove,
    half_doubt,
    half_end_told,
    half_follow,
    half_is_ended,
    half_note_move,
)
from cext.flow.transaction.transaction_end cimport end_half, move_half
from cext.flow.transaction.transaction_service cimport TransactionService
from cext.store.queues.consume_queue cimport Queue
from cext.wire.system_topics cimport HALF_TOPIC, HALF_TOPIC_BYTES
from cext.wire.text cimport Text, text_of

cdef enum:
    OPEN_HALVES_MAX = 65536     # that one call returns
    LOOKS_MAX = 65536           # half messages looked at in one call

cdef enum HalfState:            # as rmq/broker/core_seam.py has them
    HALF_ENDED = 0
    HALF_OPEN = 1
    HALF_DOUBTED = 2


# ---------------------------------------------------------------- start_transactions

cdef struct StartTransactions:
    int64_t first               # half queue offset: all open ones are here or above
    bint serve                  # begin to serve: control has marked what was ended


cdef void start_transactions(TransactionService s, StartTransactions* x) noexcept nogil:
    if not x.serve:
        s.halves.first = x.first
    half_doubt(&s.halves, s.halves.first)
    s.halves.started = x.serve


# ---------------------------------------------------------------- end_halves

cdef struct EndHalves:
    Text offsets                # i64 offsets (native order) in the half queue
    bint with_op                # an op message must say so
    # results
    int64_t ended               # how many of them were open


cdef void end_halves(TransactionService s, EndHalves* x) noexcept nogil:
    cdef int64_t offset
    cdef uint64_t i
    x.ended = 0
    for i in range(x.offsets.length // 8):
        memcpy(&offset, x.offsets.bytes + 8 * i, 8)
        if half_is_ended(&s.halves, offset):
            continue
        if not x.with_op:
            half_end_told(&s.halves, offset)
        elif end_half(s, offset) != OK:
            break
        x.ended += 1


# ---------------------------------------------------------------- open_halves

cdef struct OpenHalvesAfter:
    int64_t after               # offset in the half queue at which to begin
    int32_t limit
    # results
    int status
    int64_t first               # everything below it is ended
    int64_t following           # where to go on
    Block block                 # i64 offsets of open ones


cdef void open_halves(TransactionService s, OpenHalvesAfter* x) noexcept nogil:
    cdef Text name = text_of(<const uint8_t*> HALF_TOPIC, HALF_TOPIC_BYTES)
    cdef const Queue* queue = queue_of(s.append, &name, 0)
    cdef int64_t offset = max(x.after, s.halves.first)
    cdef int64_t count = 0, looks = 0
    x.status = NOT_FOUND
    if queue == NULL or x.limit <= 0 or x.limit > OPEN_HALVES_MAX:
        return
    x.status = block_take(&x.block, 8 * <uint64_t> x.limit)
    if x.status != OK:
        return
    while offset < queue.max_offset and count < x.limit and looks < LOOKS_MAX:
        if not half_is_ended(&s.halves, offset):
            memcpy(x.block.bytes + 8 * count, &offset, 8)
            count += 1
        offset += 1
        looks += 1
    x.block.length = 8 * count
    x.first = s.halves.first
    x.following = offset


# ---------------------------------------------------------------- half_state

cdef struct HalfStateOf:
    int64_t offset              # in the half queue
    int64_t log_offset
    # results
    HalfState state


cdef void half_state(TransactionService s, HalfStateOf* x) noexcept nogil:
    half_follow(&s.halves, &x.offset, &x.log_offset)
    if not half_is_ended(&s.halves, x.offset):
        x.state = HALF_OPEN
    elif x.offset < s.halves.doubted_below:
        x.state = HALF_DOUBTED
    else:
        x.state = HALF_ENDED


# ---------------------------------------------------------------- move_half

cdef void half_moved(TransactionService s, HalfMove* x) noexcept nogil:
    """Moves on from the newest known place: an end that names an earlier one finds the new."""
    half_follow(&s.halves, &x.offset, &x.log_offset)
    if half_is_ended(&s.halves, x.offset):
        half_note_move(&s.halves, x)
    else:
        move_half(s, x)


# ---------------------------------------------------------------- put_producers

cdef struct PutProducers:
    Text group
    Text connections            # ids, 8 bytes each
    Text users                  # the user's name of each one, followed by a byte 0
    # results
    int status


cdef void put_producers(TransactionService s, PutProducers* x) noexcept nogil:
    x.status = check_table_put(&s.checks, x.group.bytes, x.group.length, x.connections.bytes,
                               x.connections.length // 8, &x.users)


cdef class TransactionCalls(DelayCalls):
    def start_transactions(self, int64_t first, int32_t serve):
        cdef StartTransactions x
        x.first = first
        x.serve = serve != 0
        self._call(<CallFn> start_transactions, <void*> self.transactions, &x)

    def end_halves(self, list offsets, int32_t with_op):
        cdef EndHalves x
        cdef bytes packed = array("q", offsets).tobytes()
        x.offsets = borrowed(packed)
        x.with_op = with_op != 0
        self._call(<CallFn> end_halves, <void*> self.transactions, &x)
        return x.ended

    def open_halves(self, int64_t after, int32_t limit):
        cdef OpenHalvesAfter x
        x.after = after
        x.limit = limit
        self._call(<CallFn> open_halves, <void*> self.transactions, &x)
        raise_status(x.status, "open transactions")
        return x.first, x.following, block_numbers(&x.block)

    def half_state(self, int64_t offset, int64_t log_offset):
        cdef HalfStateOf x
        x.offset = offset
        x.log_offset = log_offset
        self._call(<CallFn> half_state, <void*> self.transactions, &x)
        return <int> x.state

    def move_half(self, int64_t offset, int64_t log_offset, int64_t to_offset,
                  int64_t to_log_offset):
        cdef HalfMove x
        x.offset = offset
        x.log_offset = log_offset
        x.to_offset = to_offset
        x.to_log_offset = to_log_offset
        self._call(<CallFn> half_moved, <void*> self.transactions, &x)

    def put_producers(self, bytes group, dict connections):
        cdef PutProducers x
        cdef bytes ids = array("Q", connections).tobytes()
        cdef bytes users = b"".join([user + b"\0" for user in connections.values()])
        x.group = borrowed(group)
        x.connections = borrowed(ids)
        x.users = borrowed(users)
        self._call(<CallFn> put_producers, <void*> self.transactions, &x)
        raise_status(x.status, f"group {group!r}")

    def check_halves(self, int64_t after, int64_t end, tuple rules):
        cdef CheckHalves x
        x.after = after
        x.end = end
        (x.rules.began_ms, x.rules.young_ms, x.rules.times_max, x.rules.age_max_ms,
         x.rules.leave_full) = rules
        self._call(<CallFn> check_backs_run, <void*> self.transactions, &x)
        raise_status(x.status, "open transactions")
        return x.following, x.asked, x.unasked, x.check_stop, block_numbers(&x.block)
