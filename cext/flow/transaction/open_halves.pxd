"""Open halves: which half messages are still open: one bit each, from the first open one on.

A half message is known by its offset in the half queue. Ended ones have their bit set; `first`
moves over them, so the memory is that of a window: WINDOW_BITS messages may lie between the oldest
open one and the newest (8 MiB, touched as far as used). More half messages are refused as busy.
Those that nobody ends do not hold the window: a check back stores them anew at its end.

A half message that is stored anew for a check back has a new place, which its producer hears of
then. An end that was under way meanwhile names the old one; the last MOVES moves are remembered, so
that it counts for the new one. Control notes a move, too, where it stores one anew that was given
up. Moves are not in the log: those of an earlier process, or of another master, are known as ends
alone, and below `doubted_below` what is ended may be open at a place that nobody remembers. Control
finds it (rmq/broker/tasks/moved_halves.py).

Example: first 17; halves 17, 18, 19; 18 and 19 are committed: first stays 17, open() gives 17. When
17 is rolled back, first is 20.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.base.histogram_buckets cimport HistogramBuckets

cdef enum:
    WINDOW_BITS = 67108864          # half messages between the oldest open one and the newest
    MOVES = 262144                  # remembered; a power of two
    MOVES_FOLLOWED = 1024           # of one transaction
    OP_BYTES_MAX = 65536            # offsets that wait for the turn's op message
    OP_BODY_BYTES = 4096            # of one op message (transactionOpMsgMaxSize)

cdef struct HalfMove:               # offset -> to_offset > offset; all zero: none
    int64_t offset
    int64_t log_offset
    int64_t to_offset
    int64_t to_log_offset

cdef struct OpenHalves:
    uint64_t* ended                 # owned, WINDOW_BITS bits; bit offset % WINDOW_BITS
    int64_t first                   # every half below it is ended
    int64_t doubted_below           # half offset: an ended one below it may have moved
    HalfMove* moves                 # owned, MOVES slots: of `offset` in slot offset % MOVES
    bint started                    # control has said where to begin
    uint8_t* ops                    # owned: "17,18," not yet in an op message
    uint64_t op_bytes
    uint64_t committed
    uint64_t rolled_back
    uint64_t repeated               # ends of what was ended before
    uint64_t moved                  # ends of what was stored anew meanwhile
    int64_t set_aside               # transactions given up that control may still commit
    int64_t ended_ahead             # ended ones not below `first`
    HistogramBuckets finish                    # from the send of a half message to its end, in s

cdef inline bint half_is_ended(const OpenHalves* halves, int64_t offset) noexcept nogil:
    cdef uint64_t bit = <uint64_t> offset & (WINDOW_BITS - 1)
    return offset < halves.first or (halves.ended[bit >> 6] >> (bit & 63)) & 1 != 0

# Whether the half with this offset fits in the window.
cdef inline bint half_fits(const OpenHalves* halves, int64_t offset) noexcept nogil:
    return offset - halves.first < WINDOW_BITS

# Marks the half ended and moves `first`; nothing when it is ended or outside of the window.
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

# An op message says so, which another process, or another master, has written.
cdef inline void half_end_told(OpenHalves* halves, int64_t offset) noexcept nogil:
    if offset - halves.first < WINDOW_BITS:
        half_doubt(halves, offset + 1)
    half_end(halves, offset)

cdef inline void half_note_move(OpenHalves* halves, const HalfMove* move) noexcept nogil:
    cdef HalfMove* slot = &halves.moves[<uint64_t> move.offset & (MOVES - 1)]
    if slot.to_offset > slot.offset:
        half_doubt(halves, slot.offset + 1)     # it is forgotten from here on
    slot[0] = move[0]

# The newest place of a half message; False: it stays where it is, as far as is known.
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

# The half queue begins at `offset` by now: what is below it is ended, and may have moved before.
cdef inline void half_begin(OpenHalves* halves, int64_t offset) noexcept nogil:
    if offset <= halves.first:
        return
    half_doubt(halves, offset)
    while halves.ended_ahead > 0 and halves.first < offset:
        half_end(halves, halves.first)          # with its bit, and those behind it
    halves.first = max(halves.first, offset)    # no bit is set: nothing ahead is ended
