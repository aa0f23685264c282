"""Connection table. See connection_table.pxd, and connection.pxd for a connection's state."""
cimport cython
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from cext.base.check cimport check
from cext.base.status cimport IO_ERROR, OK
from cext.memory.arena cimport Arena, arena_page_bytes, arena_take_pages
from cext.memory.buffer_pool cimport (
    buffer_pool_close,
    buffer_pool_open,
    buffer_pool_own,
    buffer_pool_release,
    buffer_pool_release_head,
    buffer_pool_arena_bytes,
)
from cext.memory.large_pool cimport LargeBlock, large_pool_release
from cext.memory.list_ends cimport list_ends_check
from cext.net.address_table cimport (
    NO_LIMIT, address_enter, address_leave, address_table_open, address_table_arena_bytes,
)
from cext.net.connection cimport (
    FIRST_RECEIVE_BYTES,
    HANDSHAKE_BEGUN,
    HANDSHAKE_ELSEWHERE,
    HANDSHAKE_MS,
    IN_JUMBO,
    IN_JUMBO_HEAD,
    IN_LARGE,
    IN_REPLY_BUFFER,
    ON_HEAP,
    REPLY_BYTES,
    SMALL_BYTES,
    UNREAD_UNSENT,
    WANTS_ADDRESS,
    WANTS_HANDSHAKE,
    OutPiece,
    ReplyBuffer,
)
from cext.net.half_frames cimport halves_open, halves_remove
from cext.net.handshake_thread cimport (
    HandshakeStep, handshake_thread_stop, handshake_thread_take,
)
from cext.net.peer_address cimport set_address
from cext.net.socket_api cimport (
    EPOLL_CLOEXEC,
    EPOLL_CTL_ADD,
    EPOLL_CTL_DEL,
    EPOLL_CTL_MOD,
    close,
    epoll_create1,
    epoll_ctl,
    epoll_event,
)
from cext.net.stalled_list cimport stalled_leave
from cext.net.transport cimport transport_events

cdef extern from *:
    int __builtin_ctz(unsigned int) noexcept nogil

cdef enum:
    JUMBO_KEEP_BYTES = 1048576      # memory that a free jumbo buffer may keep
    SILENT_MS = 1000                # how long a new client is not displaced
    SILENT_LOOKS = 1024             # slots that displace() looks at
    SLOT_BITS = 20
    SLOT_MASK = (1 << 20) - 1


cdef struct TableSums:              # counted anew, by looking at all slots
    uint32_t open
    uint32_t unread[UNREAD_REASONS]

cdef const char* REASONS_COUNTED = b"the network: as many connections have a reason as are counted"
cdef const char* BUFFER_HELD = b"the network: a reply buffer that pieces point to"


cdef inline int number_of(uint8_t reason) noexcept nogil:
    return __builtin_ctz(reason)


cdef inline void sums_add(TableSums* sums, const Connection* c) noexcept nogil:
    cdef uint32_t reasons = c.unread
    sums.open += c.id != 0
    while reasons != 0:
        sums.unread[__builtin_ctz(reasons)] += 1
        reasons &= reasons - 1


cdef void check_sums(ConnectionTable table, const TableSums* sums) noexcept nogil:
    cdef const Connection* c = table.closed_first
    cdef uint32_t i, closed = 0
    check(sums.open == table.connection_count,
          b"the network: as many connections are open as are counted", sums.open,
          table.connection_count)
    for i in range(UNREAD_REASONS):
        check(sums.unread[i] == table.unread_counts[i], REASONS_COUNTED, sums.unread[i],
              table.unread_counts[i])
    while c != NULL and closed <= table.highest_slot:
        closed += 1
        c = c.next_closed
    check(sums.open + table.free_count + closed == table.highest_slot,
          b"the network: a slot is open, closed in this turn, or free", table.free_count,
          table.highest_slot)


cdef inline uint64_t jumbo_size(uint64_t frame_max_bytes) noexcept nogil:
    return frame_max_bytes + 65536      # a receive seldom ends where a frame ends


cdef uint64_t connection_table_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                           uint32_t jumbo_count,
                                           uint32_t reply_count) noexcept nogil:
    connections_max = min(connections_max, <uint32_t> SLOT_MASK)
    return (arena_page_bytes(connections_max * sizeof(Connection))
            + address_table_arena_bytes(connections_max)
            + arena_page_bytes(connections_max * sizeof(uint32_t))
            + arena_page_bytes(jumbo_count * sizeof(Connection*))
            + buffer_pool_arena_bytes(SMALL_BYTES, connections_max)
            + buffer_pool_arena_bytes(REPLY_BYTES, reply_count)
            + buffer_pool_arena_bytes(sizeof(OutPiece), reply_count * 64)
            + buffer_pool_arena_bytes(jumbo_size(frame_max_bytes), jumbo_count))


@cython.no_gc_clear                  # __dealloc__ needs all members
cdef class ConnectionTable:
    def __cinit__(self):
        self.epoll_fd = -1
        self.idle_ms = 120000
        self.halves.bytes = self.halves.bytes_of_address = <uint64_t> -1

    def __dealloc__(self):
        cdef uint32_t slot
        if self.connections != NULL:
            for slot in range(self.highest_slot):
                if self.connections[slot].id != 0:
                    if self.connections[slot].transport != NULL:
                        self.connections[slot].transport.close(&self.connections[slot])
                    close(self.connections[slot].fd)
        buffer_pool_close(&self.small_pool)
        buffer_pool_close(&self.jumbo_pool)
        buffer_pool_close(&self.reply_pool)
        buffer_pool_close(&self.piece_pool)
        if self.epoll_fd >= 0:
            close(self.epoll_fd)

    cdef void drop_transports(self) noexcept nogil:
        cdef HandshakeStep* step = NULL
        cdef Connection* c
        cdef uint32_t slot
        if self.handshakes != NULL:
            handshake_thread_stop(self.handshakes)
            step = handshake_thread_take(self.handshakes)
        while step != NULL:
            c = self.find(step.connection_id)
            if c == NULL:
                self.drop_orphan(step)
            else:
                c.transport_wants &= ~<uint8_t> HANDSHAKE_ELSEWHERE
            step = handshake_thread_take(self.handshakes)
        self.handshakes = NULL
        for slot in range(self.highest_slot):
            c = &self.connections[slot]
            if c.id != 0 and c.transport != NULL:
                c.transport.close(c)
                c.transport = NULL

    cdef int open_table(self, uint64_t frame_max_bytes, uint32_t connections_max,
                        uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
        cdef Arena* arena = &self.memory.arena
        connections_max = min(connections_max, <uint32_t> SLOT_MASK)
        self.connections_max = connections_max
        self.connections = <Connection*> arena_take_pages(
            arena, connections_max * sizeof(Connection))
        self.free_slots = <uint32_t*> arena_take_pages(arena, connections_max * sizeof(uint32_t))
        halves_open(&self.halves, <Connection**> arena_take_pages(
            arena, jumbo_count * sizeof(Connection*)), jumbo_count)
        self.jumbo_bytes = jumbo_size(frame_max_bytes)
        if address_table_open(&self.addresses, arena, connections_max) != OK:
            return IO_ERROR
        # The jumbo buffers come last: only they need not stay in memory (arena_lock).
        if (self.connections == NULL or self.free_slots == NULL or self.halves.list == NULL
                or buffer_pool_open(&self.small_pool, arena, SMALL_BYTES, connections_max, 0) != OK
                or buffer_pool_open(&self.reply_pool, arena, REPLY_BYTES, reply_count, 0) != OK
                or buffer_pool_open(&self.piece_pool, arena, sizeof(OutPiece), reply_count * 64,
                                    0) != OK
                or buffer_pool_open(&self.jumbo_pool, arena, self.jumbo_bytes, jumbo_count,
                                    JUMBO_KEEP_BYTES) != OK):
            return IO_ERROR
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        return OK if self.epoll_fd >= 0 else IO_ERROR

    # ---------------------------------------------------------------- slots

    cdef void own(self, bint mine) noexcept nogil:
        buffer_pool_own(&self.small_pool, mine)
        buffer_pool_own(&self.jumbo_pool, mine)
        buffer_pool_own(&self.reply_pool, mine)
        buffer_pool_own(&self.piece_pool, mine)

    cdef bint is_full(self) noexcept nogil:
        return (self.free_count == 0 and self.highest_slot == self.connections_max
                or self.connection_count + self.orphans >= self.connections_max)

    cdef Connection* add_connection(self, int fd, const sockaddr_storage* peer,
                                    const Protocol* protocol,
                                    const Transport* transport) noexcept nogil:
        cdef epoll_event event
        cdef Connection* c
        cdef uint32_t slot
        if self.free_count > 0:
            self.free_count -= 1
            slot = self.free_slots[self.free_count]
        else:
            slot = self.highest_slot
            self.highest_slot += 1
        c = &self.connections[slot]
        memset(c, 0, sizeof(Connection))
        c.fd = fd
        c.slot = slot
        self.generation += 1
        c.id = (self.generation << SLOT_BITS) | slot
        c.protocol = protocol
        c.transport = transport
        c.active_ms = c.opened_ms = self.now_ms
        c.receive_bytes = FIRST_RECEIVE_BYTES
        set_address(c, peer)
        if transport != NULL:
            c.transport_wants = WANTS_HANDSHAKE
            if not transport.open(transport.owner, c):
                c.transport = NULL
                c.id = 0
            elif c.transport == NULL:       # plain: it needs none
                c.transport_wants = 0
        event.events = transport_events(c)
        event.data.ptr = c
        if c.id == 0 or epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0:
            if c.transport != NULL:
                c.transport.close(c)
            c.id = 0
            close(fd)
            self.free_slots[self.free_count] = slot
            self.free_count += 1
            return NULL
        self.connection_count += 1
        self.counters.accepted += 1
        return c

    cdef bint count_address(self, Connection* c) noexcept nogil:
        if c.transport_wants & WANTS_ADDRESS:
            return True
        return address_enter(&self.addresses, c) == NO_LIMIT or self.keep_newest(c)

    cdef bint keep_newest(self, Connection* c) noexcept nogil:
        if self.displace(c, False):
            return True
        self.counters.refused_address += 1
        self.refuse_address(c)
        return False

    cdef void refuse_address(self, Connection* c) noexcept nogil:
        memcpy(self.refused.address, c.address, sizeof(c.address))
        self.refused.address_bytes = c.address_bytes
        self.close_connection(c)

    cdef void drop_orphan(self, HandshakeStep* step) noexcept nogil:
        check(self.orphans > 0, b"the network: steps of closed connections are counted",
              self.orphans, step.fd)
        self.orphans -= 1
        step.drop(step)

    cdef Connection* find(self, uint64_t connection_id) noexcept nogil:
        cdef uint64_t slot = connection_id & SLOT_MASK
        if (connection_id == 0 or slot >= self.highest_slot
                or self.connections[slot].id != connection_id):
            return NULL
        return &self.connections[slot]

    cdef void mark_dirty(self, Connection* c) noexcept nogil:
        if not c.dirty:
            c.dirty = 1
            c.next_dirty = self.dirty_first
            self.dirty_first = c

    # ---------------------------------------------------------------- connections that are not read

    cdef void watch(self, Connection* c) noexcept nogil:
        """Has epoll wait for what the connection must do next."""
        cdef epoll_event event
        event.events = transport_events(c)
        event.data.ptr = c
        epoll_ctl(self.epoll_fd, EPOLL_CTL_MOD, c.fd, &event)

    cdef void stop_reading(self, Connection* c, uint8_t reason) noexcept nogil:
        if c.unread & reason or c.id == 0:
            return
        self.unread_counts[number_of(reason)] += 1
        c.unread |= reason
        if reason == UNREAD_UNSENT or c.unread == reason:
            self.watch(c)

    cdef void go_on_reading(self, Connection* c, uint8_t reason) noexcept nogil:
        if not c.unread & reason:
            return
        check(self.unread_counts[number_of(reason)] > 0,
              REASONS_COUNTED, reason, self.unread_counts[number_of(reason)])
        self.unread_counts[number_of(reason)] -= 1
        c.unread &= ~reason
        if c.unread == 0 and reason != UNREAD_UNSENT:
            c.active_ms = self.now_ms           # until now the server was the cause of its silence
            c.jumbo_ms = self.now_ms
        if c.unread == 0 or reason == UNREAD_UNSENT:
            self.watch(c)
        if c.transport != NULL and c.unread == 0:
            self.look_for_pending(c)

    cdef void look_for_pending(self, Connection* c) noexcept nogil:
        if not c.pending and c.transport.pending(c) > 0:
            c.pending = 1
            c.next_pending = self.pending_first
            self.pending_first = c

    cdef void go_on_reading_all(self, uint8_t reason) noexcept nogil:
        cdef Connection* c = self.connections
        cdef Connection* end = c + self.highest_slot
        while self.unread_count(reason) > 0 and c < end:
            if c.id != 0:
                self.go_on_reading(c, reason)
            c += 1

    cdef uint32_t unread_count(self, uint8_t reason) noexcept nogil:
        return self.unread_counts[number_of(reason)]

    # ---------------------------------------------------------------- the end of a connection

    cdef void close_connection(self, Connection* c) noexcept nogil:
        """Closes now; the slot is reused from the next turn on, so pointers stay comparable."""
        cdef int i
        if c.id == 0:
            return
        c.protocol.on_closed(c.protocol.owner, c)
        self.drop_output(c)
        if c.small != NULL:
            buffer_pool_release(&self.small_pool, c.small)
            c.small = NULL
        if c.jumbo != NULL:
            self.give_half(c)
        stalled_leave(&self.stalled, c)
        address_leave(&self.addresses, c, self.now_ms)
        if c.transport != NULL:
            c.transport.close(c)
        if c.transport_wants & HANDSHAKE_ELSEWHERE:     # the socket is closed when the step is back
            epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, c.fd, NULL)
            self.orphans += 1
        else:
            close(c.fd)
        c.id = 0
        check(self.connection_count > 0, b"the network: no more connections close than came",
              self.connection_count, c.slot)
        self.connection_count -= 1
        for i in range(UNREAD_REASONS):
            self.unread_counts[i] -= c.unread >> i & 1
        c.unread = 0
        self.counters.closed += 1
        # It may be in lists (dirty, pending): free_closed() keeps the slot until it is in none.
        c.next_closed = self.closed_first
        self.closed_first = c

    cdef void give_half(self, Connection* c) noexcept nogil:
        halves_remove(&self.halves, c)
        buffer_pool_release(&self.jumbo_pool, c.jumbo)
        c.jumbo = NULL

    cdef void drop_piece(self, Connection* c) noexcept nogil:
        """Takes the first piece off the list and gives back what it owns."""
        cdef OutPiece* piece = c.first
        cdef ReplyBuffer* buffer
        c.first = piece.next
        if c.first == NULL:
            c.last = NULL
        list_ends_check(c.first, c.last)
        if piece.kind == IN_REPLY_BUFFER:
            buffer = <ReplyBuffer*> piece.owner
            check(buffer.references > 0, BUFFER_HELD, buffer.references, buffer.used)
            buffer.references -= 1
            if buffer.references == 0:
                buffer_pool_release(&self.reply_pool, buffer)
        elif piece.kind == IN_JUMBO:
            buffer_pool_release(&self.jumbo_pool, piece.owner)
        elif piece.kind == IN_JUMBO_HEAD:
            buffer_pool_release_head(&self.jumbo_pool, piece.owner)
        elif piece.kind == ON_HEAP:
            free(piece.owner)
        elif piece.kind == IN_LARGE:
            large_pool_release(&self.large, <LargeBlock*> piece.owner)
        buffer_pool_release(&self.piece_pool, piece)

    cdef void drop_output(self, Connection* c) noexcept nogil:
        while c.first != NULL:
            self.drop_piece(c)
        if c.open_buffer != NULL:
            check(c.open_buffer.references > 0, BUFFER_HELD, c.open_buffer.references,
                  c.open_buffer.used)
            c.open_buffer.references -= 1
            if c.open_buffer.references == 0:
                buffer_pool_release(&self.reply_pool, c.open_buffer)
            c.open_buffer = NULL
        c.unsent_bytes = 0

    cdef void free_closed(self) noexcept nogil:
        cdef Connection* c = self.closed_first
        cdef Connection* following
        self.closed_first = NULL
        while c != NULL:
            following = c.next_closed
            if c.dirty or c.pending:        # its slot is still in a list of the next turn
                c.next_closed = self.closed_first
                self.closed_first = c
            else:
                self.drop_output(c)         # answers that were queued after it closed
                check(self.free_count < self.highest_slot,
                      b"the network: a slot is freed once", c.slot, self.free_count)
                self.free_slots[self.free_count] = c.slot
                self.free_count += 1
            c = following

    cdef bint displace(self, const Connection* newest, bint in_handshake) noexcept nogil:
        cdef Connection* c
        cdef int _i
        for _i in range(min(<int> self.highest_slot, SILENT_LOOKS)):
            self.displace_slot = (self.displace_slot + 1) % self.highest_slot
            c = &self.connections[self.displace_slot]
            if c.id == 0 or self.now_ms - c.opened_ms < SILENT_MS or (
                    c.transport_wants & HANDSHAKE_ELSEWHERE):       # it waits for the server
                continue
            if newest != NULL and (c == newest or c.of_address != newest.of_address):
                continue
            if in_handshake and c.handshake_counted or (
                    not in_handshake and c.frames_in == 0 and c.unread == 0 and not c.dirty):
                self.counters.displaced += 1
                self.close_connection(c)
                return True
        return False

    cdef void close_idle(self) noexcept nogil:
        cdef TableSums sums
        cdef Connection* c
        cdef uint32_t slot
        memset(&sums, 0, sizeof(sums))
        for slot in range(self.highest_slot):
            c = &self.connections[slot]
            if c.id != 0 and (self.now_ms - c.active_ms > self.idle_ms
                              or c.transport_wants & HANDSHAKE_BEGUN
                              and self.now_ms - c.opened_ms > HANDSHAKE_MS):
                self.counters.closed_idle += 1
                self.close_connection(c)
            sums_add(&sums, c)
        check_sums(self, &sums)
