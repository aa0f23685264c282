"""Half frames: large frames that are not complete yet, their limits, and which one makes room.

Each half frame lies in a jumbo buffer of its connection. The limits leave enough for answers
(`count`, `bytes`), for other addresses (`of_address`, `bytes_of_address`), and for clients that
have sent a whole frame before, even from the same address (`of_strangers`). Below the smallest
limits the other frames are not looked at. Where a limit is reached, the frame that has made no
progress for longest, and for STALL_MS at least, makes room: its connection is closed. If all make
progress, the new frame is refused.

Example with 128 buffers: a thousand new clients of one address send half a frame each and stop.
They get 48 buffers; from half a second later on, each client that wants a buffer takes it from
another of them. 16 buffers are left for clients of the same address that have been served before,
32 more for other addresses, and 32 for answers.

All of this belongs to the reactor thread.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from cext.net.connection cimport Connection

cdef enum:
    STALL_MS = 500                  # a large frame without progress for so long makes room
    PROGRESS_BYTES = 16384          # what counts as progress

cdef enum HalfClass:                # the clients whose large frames have reached a limit
    NOBODY = 0
    STRANGERS = 1
    ADDRESS = 2
    ANYBODY = 3

cdef struct HalfFrames:
    Connection** list               # in the arena; connections with a half frame, in no order
    uint32_t size
    uint64_t held_bytes             # received bytes of all half frames
    # limits
    uint32_t count                  # buffers in all
    uint32_t of_address             # buffers of one address
    uint32_t of_strangers           # buffers of connections that have never sent a whole frame
    uint64_t bytes                  # received bytes in all; set before the reactor opens
    uint64_t bytes_of_address       # received bytes of one address; set as `bytes`

cdef void halves_open(HalfFrames* halves, Connection** list, uint32_t buffers) noexcept nogil
cdef void halves_add(HalfFrames* halves, Connection* c, int64_t now_ms) noexcept nogil
cdef void halves_remove(HalfFrames* halves, Connection* c) noexcept nogil
# Notes that `bytes` of c's frame have been received so far.
cdef void halves_count(HalfFrames* halves, Connection* c, uint64_t bytes,
                       int64_t now_ms) noexcept nogil
# The clients (HalfClass) whose frames would exceed a limit if c had `more` buffers and `bytes`
# bytes on top.
cdef int halves_excess(const HalfFrames* halves, const Connection* c, uint32_t more,
                       uint64_t bytes) noexcept nogil
# Of the frames of these clients, the one that has made no progress for longest, but not c's own.
# NULL: all make progress.
cdef Connection* halves_slowest(const HalfFrames* halves, const Connection* c, int whose,
                                int64_t now_ms) noexcept nogil
