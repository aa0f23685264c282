"""Input of connections. See input.pxd."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove

from cext.base.check cimport check
from cext.base.status cimport IO_ERROR, OK
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.memory.buffer_pool cimport buffer_pool_release, buffer_pool_take, buffer_pool_trim
from cext.net.connection cimport (
    RECEIVE_WRITES, SCRATCH_BYTES, SMALL_BYTES, TURN_FULL, WANT_READ, WANT_WRITE,
)
from cext.net.connection_table cimport connection_table_arena_bytes
from cext.net.half_frames cimport (
    ANYBODY, NOBODY, halves_add, halves_count, halves_excess, halves_slowest,
)
from cext.net.transport cimport transport_receive

cdef enum:
    JUMBO_READ_BYTES = 1048576      # most bytes received into a jumbo buffer at once
    JUMBO_WARM = 4                  # free jumbo buffers that trim() leaves their memory


cdef uint64_t input_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
    return arena_page_bytes(SCRATCH_BYTES) + connection_table_arena_bytes(
        frame_max_bytes, connections_max, jumbo_count, reply_count)


cdef class Input(Output):
    cdef int open_input(self, uint64_t frame_max_bytes, uint32_t connections_max,
                        uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
        self.scratch = <uint8_t*> arena_take_pages(&self.memory.arena, SCRATCH_BYTES)
        if self.scratch == NULL:
            return IO_ERROR
        return self.open_table(frame_max_bytes, connections_max, jumbo_count, reply_count)

    cdef void receive(self, Connection* c) noexcept nogil:
        """Receives once, hands over whole frames in place and keeps the rest of the last one."""
        cdef uint8_t* base
        cdef uint64_t room, available
        cdef ssize_t got
        if c.jumbo != NULL:
            base = c.jumbo
            room = self.jumbo_bytes - c.partial_bytes
            if room > JUMBO_READ_BYTES:
                room = JUMBO_READ_BYTES
            if not self.grow(c, room):
                if c.transport != NULL and c.id != 0:
                    self.look_for_pending(c)
                return
        else:
            base = self.scratch
            room = min(SCRATCH_BYTES - c.partial_bytes, c.receive_bytes)
            if c.partial_bytes > 0:
                memcpy(base, c.small, c.partial_bytes)
        got = transport_receive(c, base + c.partial_bytes, room)
        self.counters.receives += 1
        if got <= 0:
            if got == WANT_WRITE:
                c.transport_wants |= RECEIVE_WRITES
                self.watch(c)
            elif got != WANT_READ:
                self.close_connection(c)
            elif c.transport != NULL:       # its records have brought no data
                self.look_for_pending(c)
            return
        if c.transport != NULL:
            self.look_for_pending(c)
        self.counters.received_bytes += got
        c.active_ms = self.now_ms
        available = c.partial_bytes + got
        if c.skip_bytes > 0:                # partial_bytes is 0 while skipping
            if c.skip_bytes >= available:
                c.skip_bytes -= available
                return
            base += c.skip_bytes
            available -= c.skip_bytes
            c.skip_bytes = 0
        self.hand_over(c, base, available)

    cdef void hand_over(self, Connection* c, uint8_t* base, uint64_t available) noexcept nogil:
        """Has the protocol take whole frames of these bytes, and keeps the rest."""
        cdef uint8_t* jumbo = c.jumbo
        cdef uint64_t needed = 0
        cdef int64_t used
        c.receive_bytes = SCRATCH_BYTES     # the protocol may set less (SLOW_RECEIVE_BYTES)
        # If the connection is closed meanwhile, the buffer of this frame must not go back yet.
        c.jumbo = NULL
        used = c.protocol.on_bytes(c.protocol.owner, c, base, available, &needed)
        if c.id == 0:                       # closed by one of its requests
            if jumbo != NULL:
                c.jumbo = jumbo
                self.give_half(c)
            return
        c.jumbo = jumbo
        if used < 0 or <uint64_t> used > available:
            # Requests before the bad frame are still answered; nothing more is read.
            c.closing = True
            self.mark_dirty(c)
        elif needed == TURN_FULL and <uint64_t> used < available:
            self.place.connection = c
            self.place.id = c.id
            self.place.rest = base + used
            self.place.rest_bytes = available - used
        elif self.keep_rest(c, base + used, available - used, needed) != OK:
            c.closing = True
            self.mark_dirty(c)

    cdef void go_on(self) noexcept nogil:
        cdef Connection* c = self.place.connection
        self.place.connection = NULL
        if c.id == self.place.id and not c.closing:     # else the bytes are gone with its buffers
            self.hand_over(c, self.place.rest, self.place.rest_bytes)

    cdef int keep_rest(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                       uint64_t needed) noexcept nogil:
        check(rest_bytes == 0 or needed > rest_bytes,
              b"the network: a protocol leaves only the beginning of a frame", needed, rest_bytes)
        if rest_bytes > 0 and (needed > SMALL_BYTES or rest_bytes > SMALL_BYTES):
            if c.jumbo != NULL:
                if rest != c.jumbo:         # another frame has begun
                    memmove(c.jumbo, rest, rest_bytes)
                    c.jumbo_mark = 0
                    c.jumbo_ms = self.now_ms
            elif not self.take_half(c, rest, rest_bytes):
                if self.refuse(c, rest, rest_bytes, needed) != OK:
                    return IO_ERROR
                rest_bytes = 0
        elif rest_bytes > 0:
            if c.small == NULL:
                c.small = <uint8_t*> buffer_pool_take(&self.small_pool)
                check(c.small != NULL, b"the network: a buffer for the rest of a frame for each "
                      b"connection", self.small_pool.in_use, self.connections_max)
            memcpy(c.small, rest, rest_bytes)
            if c.jumbo != NULL:
                self.give_half(c)
        if c.small != NULL and (rest_bytes == 0 or c.jumbo != NULL):
            buffer_pool_release(&self.small_pool, c.small)
            c.small = NULL
        if c.jumbo != NULL and rest_bytes == 0:
            self.give_half(c)
        c.partial_bytes = rest_bytes
        c.frame_bytes = needed
        if c.jumbo != NULL:
            halves_count(&self.halves, c, rest_bytes, self.now_ms)
        return OK

    cdef int refuse(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                    uint64_t needed) noexcept nogil:
        self.counters.refused_frames += 1
        if c.protocol.on_refused(c.protocol.owner, c, rest, rest_bytes, needed) < 0:
            return IO_ERROR
        c.skip_bytes = needed - rest_bytes
        return OK

    cdef bint take_half(self, Connection* c, const uint8_t* rest,
                        uint64_t rest_bytes) noexcept nogil:
        cdef uint8_t* jumbo
        if not self.make_room(c, 1, rest_bytes):
            return False
        jumbo = <uint8_t*> buffer_pool_take(&self.jumbo_pool)
        if jumbo == NULL and self.close_stalled(c, ANYBODY):
            jumbo = <uint8_t*> buffer_pool_take(&self.jumbo_pool)
        if jumbo == NULL:
            return False
        memcpy(jumbo, rest, rest_bytes)
        c.jumbo = jumbo
        halves_add(&self.halves, c, self.now_ms)
        return True

    cdef bint grow(self, Connection* c, uint64_t room) noexcept nogil:
        """Whether c's large frame may grow by `room` bytes; if not, it is refused."""
        if self.make_room(c, 0, room):
            return True
        if self.refuse(c, c.jumbo, c.partial_bytes, c.frame_bytes) != OK:
            c.closing = True
            self.mark_dirty(c)
        self.give_half(c)
        c.partial_bytes = 0
        return False

    cdef bint make_room(self, Connection* c, uint32_t more, uint64_t bytes) noexcept nogil:
        cdef int whose = halves_excess(&self.halves, c, more, bytes)
        while whose != NOBODY and self.close_stalled(c, whose):
            whose = halves_excess(&self.halves, c, more, bytes)
        return whose == NOBODY

    cdef bint close_stalled(self, Connection* c, int whose) noexcept nogil:
        """Closes the connection that must make room for c. False: there is none."""
        cdef Connection* slowest = halves_slowest(&self.halves, c, whose, self.now_ms)
        if slowest == NULL:
            return False
        self.counters.closed_slow += 1
        self.close_connection(slowest)
        return True

    cdef void trim(self) noexcept nogil:
        if self.jumbo_pool.releases != self.jumbo_trimmed:
            self.jumbo_trimmed = self.jumbo_pool.releases
            buffer_pool_trim(&self.jumbo_pool, JUMBO_WARM)
