"""Half frames: large frames that are not complete yet, what they may hold, and which one yields.

Each lies in a jumbo buffer of its connection. Limits keep what they hold from what answers need
(`count`, `bytes`), one address from what others need (`of_address`, `bytes_of_address`), and
clients that have never sent a whole frame from what others need, of their own address too
(`of_strangers`). Below the least of them nothing is looked at. Where a limit is reached, the frame
that has not got on for longest, and for STALL_MS, makes room; where all get on, the new one is
refused.

Example: 128 buffers. A thousand clients that just came send half a frame each and stop: they get
48, and from half a second later on each that wants one takes it from another of them. 16 are left
for clients of the same address that have been served before, 32 more for other addresses, 32 for
answers.

The reactor's.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from cext.net.connection cimport Connection

cdef enum:
    STALL_MS = 500                  # in which a large frame that others wait for gets on
    PROGRESS_BYTES = 16384          # by at least so much

cdef enum HalfClass:                # whose large frames reached a limit
    NOBODY = 0
    STRANGERS = 1
    ADDRESS = 2
    ANYBODY = 3

cdef struct HalfFrames:
    Connection** list               # of the arena; those that have one, in no order
    uint32_t size
    uint64_t held_bytes             # what has come of them
    # limits
    uint32_t count                  # buffers of all
    uint32_t of_address             # buffers of one address
    uint32_t of_strangers           # buffers of connections that never sent a whole frame
    uint64_t bytes                  # what may have come of all; set before the reactor opens
    uint64_t bytes_of_address       # the same of one address

cdef void halves_open(HalfFrames* halves, Connection** list, uint32_t buffers) noexcept nogil
cdef void halves_add(HalfFrames* halves, Connection* c, int64_t now_ms) noexcept nogil
cdef void halves_remove(HalfFrames* halves, Connection* c) noexcept nogil
# So much has come of its frame by now.
cdef void halves_count(HalfFrames* halves, Connection* c, uint64_t bytes,
                       int64_t now_ms) noexcept nogil
# Whose frames (HalfClass) would be beyond a limit if c had so many buffers and bytes more.
cdef int halves_excess(const HalfFrames* halves, const Connection* c, uint32_t more,
                       uint64_t bytes) noexcept nogil
# Of these frames the one, not c's own, that has not got on for longest; NULL: all get on.
cdef Connection* halves_slowest(const HalfFrames* halves, const Connection* c, int whose,
                                int64_t now_ms) noexcept nogil
