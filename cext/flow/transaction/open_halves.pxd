"""Open halves: which half messages are still open: one bit each, from the first open one on.

A half message is known by its offset in the half queue. The bit of an ended one is set, and `first`
moves over set bits, so the memory is that of a window: WINDOW_BITS messages may lie between the
oldest open one and the newest (8 MiB, touched as far as used). Half messages beyond that are
refused as busy. A half message that nobody ends does not hold up the window, because a check back
stores it anew at the window's end.

A half message that is stored anew for a check back has a new place, which its producer learns from
the check back. An end that was already under way names the old place; the last MOVES moves are
remembered, so that it counts for the new place. Control notes a move, too, when it stores anew a
half message that was given up. Moves are not in the log: of the moves of an earlier process or of
another master only the ends are known. So below `doubted_below`, a half message that is ended here
may be open at a place that nobody remembers. Control finds it (rmq/broker/tasks/moved_halves.py).

Example: first 17; halves 17, 18, 19; 18 and 19 are committed: first stays 17, open() gives 17. When
17 is rolled back, first is 20.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.base.histogram_buckets cimport HistogramBuckets

cdef enum:
    WINDOW_BITS = 67108864          # half messages between the oldest open one and the newest
    MOVES = 262144                  # remembered; a power of two
    MOVES_FOLLOWED = 1024           # moves followed for one transaction
    OP_BYTES_MAX = 65536            # offsets that wait for the turn's op message
    OP_BODY_BYTES = 4096            # of one op message (transactionOpMsgMaxSize)

cdef struct HalfMove:               # offset -> to_offset > offset; all zero: no move
    int64_t offset
    int64_t log_offset
    int64_t to_offset
    int64_t to_log_offset

cdef struct OpenHalves:
    uint64_t* ended                 # owned, WINDOW_BITS bits; bit offset % WINDOW_BITS
    int64_t first                   # every half message below it is ended
    int64_t doubted_below           # half messages below it that are ended may have moved
    HalfMove* moves                 # owned, MOVES slots: by offset % MOVES
    bint started                    # control has said where to begin
    uint8_t* ops                    # owned: "17,18," not yet in an op message
    uint64_t op_bytes
    uint64_t committed
    uint64_t rolled_back
    uint64_t repeated               # ends of transactions that were ended before
    uint64_t moved                  # ends that named the old place of a moved half message
    int64_t set_aside               # transactions given up that control may still commit
    int64_t ended_ahead             # half messages ended, but not below `first`
    HistogramBuckets finish                    # time from a half message's send to its end, in s

cdef inline bint half_is_ended(const OpenHalves* halves, int64_t offset) noexcept nogil:
    cdef uint64_t bit = <uint64_t> offset & (WINDOW_BITS - 1)
    return offset < halves.first or (halves.ended[bit >> 6] >> (bit & 63)) & 1 != 0

# Whether the half message with this offset fits in the window.
cdef inline bint half_fits(const OpenHalves* halves, int64_t offset) noexcept nogil:
    return offset - halves.first < WINDOW_BITS

# Marks the half ended and moves `first`; does nothing when it is ended or outside of the window.
cdef inline void half_end(OpenHalves* halves, int64_t offset) noexcept nogil:
    cdef uint64_t bit = <uint64_t> offset & (WINDOW_BITS - 1)
    if offset < halves.first or offset - halves.first >= WINDOW_BITS:
        return
    if not (halves.ended[bit >> 6] >> (bit & 63)) & 1:
        halves.ended_ahead += 1
    halves.ended[bit >> 6] |= <uint64_t> 1 << (bit & 63)
    bit = <uint64_t> halves.first & (WINDOW_BITS - 1)
    while (halves.ended[bit >> 6] >> (bit & 63)) & 1:
        halves.ended[bit >> 6] &= ~(<uint64_t> 1 << (bit & 63))
        halves.first += 1
        halves.ended_ahead -= 1
        bit = <uint64_t> halves.first & (WINDOW_BITS - 1)

cdef inline void half_doubt(OpenHalves* halves, int64_t below) noexcept nogil:
    if below > halves.doubted_below:
        halves.doubted_below = below

# The half is ended by an op message that another process, or another master, has written.
cdef inline void half_end_told(OpenHalves* halves, int64_t offset) noexcept nogil:
    if offset - halves.first < WINDOW_BITS:
        half_doubt(halves, offset + 1)
    half_end(halves, offset)

cdef inline void half_note_move(OpenHalves* halves, const HalfMove* move) noexcept nogil:
    cdef HalfMove* slot = &halves.moves[<uint64_t> move.offset & (MOVES - 1)]
    if slot.to_offset > slot.offset:
        half_doubt(halves, slot.offset + 1)     # it is forgotten from here on
    slot[0] = move[0]

# Finds the newest place of a half message; False: it has not moved, as far as is known.
cdef inline bint half_follow(const OpenHalves* halves, int64_t* offset,
                             int64_t* log_offset) noexcept nogil:
    cdef const HalfMove* move
    cdef int followed = 0
    while followed < MOVES_FOLLOWED and half_is_ended(halves, offset[0]):
        move = &halves.moves[<uint64_t> offset[0] & (MOVES - 1)]
        if (move.offset != offset[0] or move.log_offset != log_offset[0]
                or move.to_offset <= move.offset):
            break
        offset[0] = move.to_offset
        log_offset[0] = move.to_log_offset
        followed += 1
    return followed > 0

# The half queue now begins at `offset`: what is below counts as ended, and may have moved before.
cdef inline void half_begin(OpenHalves* halves, int64_t offset) noexcept nogil:
    if offset <= halves.first:
        return
    half_doubt(halves, offset)
    while halves.ended_ahead > 0 and halves.first < offset:
        half_end(halves, halves.first)          # with its bit, and those behind it
    halves.first = max(halves.first, offset)    # no bit is set: nothing ahead is ended
