"""Half frames. See half_frames.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

from cext.base.check cimport check
from cext.net.connection cimport UNREAD_UNSENT


cdef inline bint is_of_address(const Connection* c, const Connection* other) noexcept nogil:
    if c.of_address != NULL and other.of_address != NULL:
        return c.of_address == other.of_address
    return (c.address_bytes == other.address_bytes
            and memcmp(c.address, other.address, c.address_bytes - 4) == 0)


cdef void halves_open(HalfFrames* halves, Connection** list, uint32_t buffers) noexcept nogil:
    halves.list = list
    halves.count = halves.of_address = halves.of_strangers = buffers
    if buffers >= 8:
        halves.count -= buffers // 4
        halves.of_address = buffers // 2
        halves.of_strangers = buffers * 3 // 8


cdef void halves_add(HalfFrames* halves, Connection* c, int64_t now_ms) noexcept nogil:
    check(halves.size < halves.count, b"the network: no more large frames are kept than may be",
          halves.size, halves.count)
    c.jumbo_ms = now_ms
    c.jumbo_mark = c.jumbo_counted = 0
    c.half_place = halves.size
    halves.list[halves.size] = c
    halves.size += 1


cdef void halves_remove(HalfFrames* halves, Connection* c) noexcept nogil:
    check(halves.size > 0 and halves.list[c.half_place] == c,
          b"the network: a large frame is in the list of those", c.half_place, halves.size)
    halves.size -= 1
    halves.list[c.half_place] = halves.list[halves.size]
    halves.list[c.half_place].half_place = c.half_place
    check(c.jumbo_counted <= halves.held_bytes,
          b"the network: what a large frame holds is counted", <int64_t> c.jumbo_counted,
          <int64_t> halves.held_bytes)
    halves.held_bytes -= c.jumbo_counted


cdef void halves_count(HalfFrames* halves, Connection* c, uint64_t bytes,
                       int64_t now_ms) noexcept nogil:
    halves.held_bytes += bytes - c.jumbo_counted
    c.jumbo_counted = bytes
    if bytes >= c.jumbo_mark + PROGRESS_BYTES:
        c.jumbo_mark = bytes
        c.jumbo_ms = now_ms


cdef int halves_excess(const HalfFrames* halves, const Connection* c, uint32_t more,
                       uint64_t bytes) noexcept nogil:
    cdef uint32_t i, at_address = more, strangers = more
    cdef uint64_t address_bytes = bytes
    cdef const Connection* other
    if (halves.size + more <= halves.of_strangers
            and halves.held_bytes + bytes <= halves.bytes_of_address):
        return NOBODY                       # these two limits are the smallest
    for i in range(halves.size):
        other = halves.list[i]
        strangers += other.frames_in == 0
        if is_of_address(other, c):
            at_address += 1
            address_bytes += other.jumbo_counted
    if more > 0 and c.frames_in == 0 and strangers > halves.of_strangers:
        return STRANGERS
    if at_address > halves.of_address or address_bytes > halves.bytes_of_address:
        return ADDRESS
    if halves.size + more > halves.count or halves.held_bytes + bytes > halves.bytes:
        return ANYBODY
    return NOBODY


cdef Connection* halves_slowest(const HalfFrames* halves, const Connection* c, int whose,
                                int64_t now_ms) noexcept nogil:
    cdef Connection* other
    cdef Connection* slowest = NULL
    cdef int64_t since = now_ms - STALL_MS
    cdef uint32_t i
    for i in range(halves.size):
        other = halves.list[i]
        if other.jumbo_ms > since or other == c:
            continue
        if other.unread != 0 and not other.unread & UNREAD_UNSENT:
            continue                        # the server does not read it, so it cannot progress
        if (whose == STRANGERS and other.frames_in > 0
                or whose == ADDRESS and not is_of_address(other, c)):
            continue
        since = other.jumbo_ms
        slowest = other
    return slowest
