"""The loop's socket half. See reactor.pxd for the contract and connection.pxd for the state."""
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from cext.base.check cimport check
from cext.base.clock cimport monotonic_us, sleep_ms
from cext.base.status cimport IO_ERROR, OK
from cext.memory.arena cimport Arena, arena_room, arena_take_pages
from cext.memory.buffer_pool cimport (
    buffer_pool_close,
    buffer_pool_open,
    buffer_pool_release,
    buffer_pool_release_head,
    buffer_pool_room,
    buffer_pool_take,
    buffer_pool_trim,
)
from cext.net.connection cimport (
    BORROWED,
    FIRST_RECEIVE_BYTES,
    IN_JUMBO,
    IN_JUMBO_HEAD,
    IN_REPLY_BUFFER,
    ON_HEAP,
    PIECES_PER_WRITE,
    REPLY_BYTES,
    SCRATCH_BYTES,
    SMALL_BYTES,
    UNREAD_REASONS,
    UNREAD_UNSENT,
    ReplyBuffer,
)
from cext.net.half_frames cimport (
    ANYBODY, NOBODY, halves_add, halves_count, halves_excess, halves_open, halves_remove,
    halves_slowest,
)
from cext.net.peer_address cimport set_address
from cext.net.socket_api cimport *
from cext.net.stalled cimport stalled_join, stalled_leave

cdef extern from *:
    int __builtin_ctz(unsigned int) noexcept nogil

cdef enum:
    EVENTS_PER_POLL = 256
    ACCEPTS_PER_TURN = 64
    TURN_BYTES = 8388608            # received in one turn; the rest is told again by the next poll
    JUMBO_KEEP_BYTES = 1048576      # memory a free jumbo buffer may go on holding
    JUMBO_READ_BYTES = 1048576      # most bytes received into a jumbo buffer at once
    JUMBO_WARM = 4                  # free jumbo buffers that keep their memory for long
    DEAF_MS = 2000                  # how long answers may wait while buffers run out
    KEPT_PER_WRITE = 16             # jumbo buffers of one connection emptied at once
    KEPT_BYTES = 262144             # what is left of an answer in each
    SILENT_MS = 1000                # in which a new client asks for something
    SILENT_LOOKS = 1024
    SLOT_BITS = 20
    SLOT_MASK = (1 << 20) - 1


cdef inline int number_of(uint8_t reason) noexcept nogil:
    return __builtin_ctz(reason)


cdef inline uint64_t jumbo_size(uint64_t frame_max_bytes) noexcept nogil:
    return frame_max_bytes + 65536      # a frame's end is seldom the end of what a receive brings


cdef uint64_t reactor_room(uint64_t frame_max_bytes, uint32_t connections_max,
                           uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
    connections_max = min(connections_max, <uint32_t> SLOT_MASK)
    return (arena_room(connections_max * sizeof(Connection))
            + arena_room(connections_max * sizeof(uint32_t))
            + arena_room(SCRATCH_BYTES)
            + arena_room(EVENTS_PER_POLL * sizeof(epoll_event))
            + arena_room(jumbo_count * sizeof(Connection*))
            + buffer_pool_room(SMALL_BYTES, connections_max)
            + buffer_pool_room(REPLY_BYTES, reply_count)
            + buffer_pool_room(sizeof(OutPiece), reply_count * 64)
            + buffer_pool_room(jumbo_size(frame_max_bytes), jumbo_count))


cdef class Reactor:
    def __cinit__(self):
        self.epoll_fd = -1
        self.listen_fd = -1
        self.wake_fd = -1
        self.idle_ms = 120000
        self.halves.bytes = self.halves.bytes_of_address = <uint64_t> -1

    def __dealloc__(self):
        cdef uint32_t slot
        if self.connections != NULL:
            for slot in range(self.highest_slot):
                if self.connections[slot].id != 0:
                    close(self.connections[slot].fd)
        buffer_pool_close(&self.small_pool)
        buffer_pool_close(&self.jumbo_pool)
        buffer_pool_close(&self.reply_pool)
        buffer_pool_close(&self.piece_pool)
        if self.epoll_fd >= 0:
            close(self.epoll_fd)
        if self.wake_fd >= 0:
            close(self.wake_fd)

    cdef int open(self, uint64_t frame_max_bytes, uint32_t connections_max,
                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
        """Takes all memory and descriptors the loop will ever use; OK or IO_ERROR."""
        cdef Arena* arena = &self.memory.arena
        connections_max = min(connections_max, <uint32_t> SLOT_MASK)
        self.connections_max = connections_max
        self.connections = <Connection*> arena_take_pages(
            arena, connections_max * sizeof(Connection))
        self.free_slots = <uint32_t*> arena_take_pages(arena, connections_max * sizeof(uint32_t))
        self.scratch = <uint8_t*> arena_take_pages(arena, SCRATCH_BYTES)
        self.events = arena_take_pages(arena, EVENTS_PER_POLL * sizeof(epoll_event))
        halves_open(&self.halves, <Connection**> arena_take_pages(
            arena, jumbo_count * sizeof(Connection*)), jumbo_count)
        self.jumbo_bytes = jumbo_size(frame_max_bytes)
        # The jumbo buffers come last: they are what need not stay in memory (arena_lock).
        if (self.connections == NULL or self.free_slots == NULL or self.scratch == NULL
                or self.events == NULL or self.halves.list == NULL
                or buffer_pool_open(&self.small_pool, arena, SMALL_BYTES, connections_max, 0) != OK
                or buffer_pool_open(&self.reply_pool, arena, REPLY_BYTES, reply_count, 0) != OK
                or buffer_pool_open(&self.piece_pool, arena, sizeof(OutPiece), reply_count * 64,
                                    0) != OK
                or buffer_pool_open(&self.jumbo_pool, arena, self.jumbo_bytes, jumbo_count,
                                    JUMBO_KEEP_BYTES) != OK):
            return IO_ERROR
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.epoll_fd < 0 or self.wake_fd < 0:
            return IO_ERROR
        cdef epoll_event event
        cdef int i
        event.events = EPOLLIN
        event.data.ptr = &self.wake_fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.wake_fd, &event) != 0:
            return IO_ERROR
        for i in range(self.told_count):
            event.data.ptr = &self.told_fds[i]
            if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.told_fds[i], &event) != 0:
                return IO_ERROR
        event.data.ptr = &self.listen_fd
        if self.listen_fd >= 0 and epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.listen_fd,
                                             &event) != 0:
            return IO_ERROR
        return OK

    cdef void add_wake_fd(self, int fd) noexcept nogil:
        if self.told_count < 4:
            self.told_fds[self.told_count] = fd
            self.told_count += 1

    cdef void set_callbacks(self, void* owner, OnBytes on_bytes, OnRefused on_refused,
                            OnClosed on_closed, OnDrained on_drained) noexcept nogil:
        self.owner = owner
        self.on_bytes = on_bytes
        self.on_refused = on_refused
        self.on_closed = on_closed
        self.on_drained = on_drained

    # ---------------------------------------------------------------- the turn

    cdef void poll(self, int32_t timeout_ms) noexcept nogil:
        self.event_count = epoll_wait(self.epoll_fd, <epoll_event*> self.events, EVENTS_PER_POLL,
                                      sleep_ms(timeout_ms))
        self.now_us = monotonic_us()
        self.now_ms = self.now_us // 1000
        self.woken = False

    cdef void receive_ready(self) noexcept nogil:
        cdef epoll_event* events = <epoll_event*> self.events
        cdef uint64_t ignored, bytes_end = self.counters.received_bytes + TURN_BYTES
        cdef int i
        for i in range(self.event_count):
            if events[i].data.ptr == <void*> &self.wake_fd:
                read(self.wake_fd, &ignored, 8)
                self.woken = True
            elif (events[i].data.ptr >= <void*> &self.told_fds[0]
                  and events[i].data.ptr <= <void*> &self.told_fds[3]):
                read((<int*> events[i].data.ptr)[0], &ignored, 8)
            elif events[i].data.ptr == <void*> &self.listen_fd:
                self.accept_ready()
            elif events[i].events != EPOLLIN or self.counters.received_bytes < bytes_end:
                self.connection_ready(<Connection*> events[i].data.ptr, events[i].events)

    cdef void connection_ready(self, Connection* c, uint32_t events) noexcept nogil:
        if c.id == 0:
            return                          # closed earlier in this turn
        if events & EPOLLOUT:
            self.mark_dirty(c)              # flush() goes on sending
        if c.closing:
            if events & (EPOLLHUP | EPOLLERR):
                self.close_connection(c)    # nobody is left to take the rest
        elif events & (EPOLLHUP | EPOLLERR) or (events & EPOLLIN and c.unread == 0):
            self.receive(c)

    cdef void accept_ready(self) noexcept nogil:
        cdef sockaddr_storage address
        cdef socklen_t length
        cdef epoll_event event
        cdef Connection* c
        cdef uint32_t slot
        cdef int fd, _i, one = 1
        cdef bint full = False
        for _i in range(ACCEPTS_PER_TURN):
            if self.free_count == 0 and self.highest_slot == self.connections_max and not full:
                full = True
                if _i > 0 or self.displace():
                    return                  # its slot is free in the next turn
            length = sizeof(address)
            fd = accept4(self.listen_fd, <sockaddr*> &address, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)
            if fd < 0:
                if (errno == EMFILE or errno == ENFILE or errno == ENOMEM or errno == ENOBUFS) \
                        and not self.displace():
                    self.pause_accepting()
                return
            if self.free_count > 0:
                self.free_count -= 1
                slot = self.free_slots[self.free_count]
            elif self.highest_slot < self.connections_max:
                slot = self.highest_slot
                self.highest_slot += 1
            else:
                self.counters.refused_full += 1
                close(fd)
                continue
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
            c = &self.connections[slot]
            memset(c, 0, sizeof(Connection))
            c.fd = fd
            c.slot = slot
            self.generation += 1
            c.id = (self.generation << SLOT_BITS) | slot
            c.active_ms = c.opened_ms = self.now_ms
            c.receive_bytes = FIRST_RECEIVE_BYTES
            set_address(c, &address)
            event.events = EPOLLIN
            event.data.ptr = c
            if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0:
                c.id = 0
                close(fd)
                self.free_slots[self.free_count] = slot
                self.free_count += 1
                continue
            self.connection_count += 1
            self.counters.accepted += 1

    cdef void pause_accepting(self) noexcept nogil:
        """No descriptor is left: the listener stays readable, and asking it again would spin."""
        self.counters.accept_failures += 1
        epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, self.listen_fd, NULL)
        self.accept_paused = True

    cdef void resume_accepting(self) noexcept nogil:
        """Called about once a second."""
        cdef epoll_event event
        if self.accept_paused:
            event.events = EPOLLIN
            event.data.ptr = &self.listen_fd
            self.accept_paused = epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.listen_fd,
                                           &event) != 0

    cdef void stop_accepting(self) noexcept nogil:
        if self.listen_fd >= 0:
            epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, self.listen_fd, NULL)
        self.accept_paused = False

    # ---------------------------------------------------------------- input

    cdef void receive(self, Connection* c) noexcept nogil:
        """One recv; hands over whole frames in place and keeps what is left of the last one."""
        cdef uint8_t* base
        cdef uint8_t* jumbo = c.jumbo
        cdef uint64_t room, available, needed = 0
        cdef int64_t used
        cdef ssize_t got
        if c.jumbo != NULL:
            base = c.jumbo
            room = self.jumbo_bytes - c.partial_bytes
            if room > JUMBO_READ_BYTES:
                room = JUMBO_READ_BYTES
            if not self.grow(c, room):
                return
        else:
            base = self.scratch
            room = min(SCRATCH_BYTES - c.partial_bytes, c.receive_bytes)
            if c.partial_bytes > 0:
                memcpy(base, c.small, c.partial_bytes)
        got = recv(c.fd, base + c.partial_bytes, room, MSG_DONTWAIT)
        self.counters.receives += 1
        if got <= 0:
            if got < 0 and (errno == EAGAIN or errno == EINTR):
                return
            self.close_connection(c)
            return
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
        c.receive_bytes = SCRATCH_BYTES     # less, if it asks for what is not done here
        # Whoever closes the connection meanwhile must not give away the frame that is looked at.
        c.jumbo = NULL
        used = self.on_bytes(self.owner, c, base, available, &needed)
        if c.id == 0:                       # closed by what it asked for
            if jumbo != NULL:
                c.jumbo = jumbo
                self.give_half(c)
            return
        c.jumbo = jumbo
        if used < 0 or <uint64_t> used > available:
            # What was asked before the bad frame is still answered; nothing more is read.
            c.closing = True
            self.mark_dirty(c)
        elif self.keep_rest(c, base + used, available - used, needed) != OK:
            c.closing = True
            self.mark_dirty(c)

    cdef int keep_rest(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                       uint64_t needed) noexcept nogil:
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
        if c.jumbo != NULL:
            halves_count(&self.halves, c, rest_bytes, self.now_ms)
        return OK

    cdef int refuse(self, Connection* c, const uint8_t* rest, uint64_t rest_bytes,
                    uint64_t needed) noexcept nogil:
        self.counters.refused_frames += 1
        if self.on_refused(self.owner, c, rest, rest_bytes, needed) < 0:
            return IO_ERROR
        c.skip_bytes = needed - rest_bytes
        return OK

    # ---------------------------------------------------------------- large frames on their way

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

    cdef void give_half(self, Connection* c) noexcept nogil:
        halves_remove(&self.halves, c)
        buffer_pool_release(&self.jumbo_pool, c.jumbo)
        c.jumbo = NULL

    cdef bint grow(self, Connection* c, uint64_t room) noexcept nogil:
        """Whether so much more of c's large frame may come; else it is refused."""
        cdef uint64_t needed
        if self.make_room(c, 0, room):
            return True
        needed = 4 + ((<uint64_t> c.jumbo[0] << 24) | (<uint32_t> c.jumbo[1] << 16)
                      | (<uint32_t> c.jumbo[2] << 8) | c.jumbo[3])
        if self.refuse(c, c.jumbo, c.partial_bytes, needed) != OK:
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
        """Closes who has to make room for c; False when there is nobody."""
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

    # ---------------------------------------------------------------- output

    cdef void mark_dirty(self, Connection* c) noexcept nogil:
        if not c.dirty:
            c.dirty = 1
            c.next_dirty = self.dirty_first
            self.dirty_first = c

    cdef OutPiece* add_piece(self, Connection* c) noexcept nogil:
        cdef OutPiece* piece = <OutPiece*> buffer_pool_take(&self.piece_pool)
        if piece == NULL:
            return NULL
        piece.next = NULL
        if c.last != NULL:
            c.last.next = piece
        else:
            c.first = piece
        c.last = piece
        self.mark_dirty(c)
        return piece

    cdef uint8_t* reserve_reply(self, Connection* c, uint32_t max_bytes) noexcept nogil:
        """Room for a reply of at most max_bytes, contiguous; NULL when the pool is empty."""
        cdef ReplyBuffer* buffer = c.open_buffer
        if max_bytes > REPLY_BYTES - sizeof(ReplyBuffer):
            return NULL
        if buffer == NULL or REPLY_BYTES - sizeof(ReplyBuffer) - buffer.used < max_bytes:
            if buffer != NULL:
                buffer.references -= 1
                if buffer.references == 0:
                    buffer_pool_release(&self.reply_pool, buffer)
                c.open_buffer = NULL
            buffer = <ReplyBuffer*> buffer_pool_take(&self.reply_pool)
            if buffer == NULL:
                return NULL
            buffer.used = 0
            buffer.references = 1
            c.open_buffer = buffer
        return <uint8_t*> buffer + sizeof(ReplyBuffer) + buffer.used

    cdef bint commit_reply(self, Connection* c, uint32_t length) noexcept nogil:
        """Queues `length` bytes just written at what reserve_reply() returned."""
        cdef ReplyBuffer* buffer = c.open_buffer
        cdef uint8_t* at = <uint8_t*> buffer + sizeof(ReplyBuffer) + buffer.used
        cdef OutPiece* piece = c.last
        if piece == NULL or piece.owner != buffer or piece.bytes + piece.length != at:
            piece = self.add_piece(c)
            if piece == NULL:
                return False
            piece.bytes = at
            piece.length = 0
            piece.owner = buffer
            piece.kind = IN_REPLY_BUFFER
            buffer.references += 1
        piece.length += length
        buffer.used += length
        c.unsent_bytes += length
        self.mark_dirty(c)
        return True

    cdef bint add_borrowed(self, Connection* c, const uint8_t* at, uint64_t length) noexcept nogil:
        """Queues store memory without copying it; it must stay valid until flush()."""
        cdef OutPiece* piece = c.last
        if piece != NULL and piece.kind == BORROWED and piece.bytes + piece.length == at:
            piece.length += length
        else:
            piece = self.add_piece(c)
            if piece == NULL:
                return False
            piece.bytes = <uint8_t*> at
            piece.length = length
            piece.owner = NULL
            piece.kind = BORROWED
        c.unsent_bytes += length
        return True

    cdef bint add_owned(self, Connection* c, uint8_t* at, uint64_t length, void* block,
                        int32_t kind) noexcept nogil:
        """Queues bytes of a block that goes back (jumbo pool, heap) when they have been sent."""
        cdef OutPiece* piece = self.add_piece(c)
        if piece == NULL:
            return False
        piece.bytes = at
        piece.length = length
        piece.owner = block
        piece.kind = kind
        c.unsent_bytes += length
        return True

    cdef void drop_piece(self, Connection* c) noexcept nogil:
        """Takes the first piece off the list and gives back what it owns."""
        cdef OutPiece* piece = c.first
        cdef ReplyBuffer* buffer
        c.first = piece.next
        if c.first == NULL:
            c.last = NULL
        if piece.kind == IN_REPLY_BUFFER:
            buffer = <ReplyBuffer*> piece.owner
            buffer.references -= 1
            if buffer.references == 0:
                buffer_pool_release(&self.reply_pool, buffer)
        elif piece.kind == IN_JUMBO:
            buffer_pool_release(&self.jumbo_pool, piece.owner)
        elif piece.kind == IN_JUMBO_HEAD:
            buffer_pool_release_head(&self.jumbo_pool, piece.owner)
        elif piece.kind == ON_HEAP:
            free(piece.owner)
        buffer_pool_release(&self.piece_pool, piece)

    cdef void drop_output(self, Connection* c) noexcept nogil:
        while c.first != NULL:
            self.drop_piece(c)
        if c.open_buffer != NULL:
            c.open_buffer.references -= 1
            if c.open_buffer.references == 0:
                buffer_pool_release(&self.reply_pool, c.open_buffer)
            c.open_buffer = NULL
        c.unsent_bytes = 0

    cdef void flush(self) noexcept nogil:
        cdef Connection* c = self.dirty_first
        cdef Connection* next_one
        self.dirty_first = NULL
        while c != NULL:
            next_one = c.next_dirty
            c.dirty = 0
            if c.id != 0:
                self.flush_connection(c)
            c = next_one
        self.free_closed()

    cdef void flush_connection(self, Connection* c) noexcept nogil:
        """Sends what is queued; what the socket does not take waits for EPOLLOUT."""
        cdef iovec iov[PIECES_PER_WRITE]
        cdef msghdr message
        cdef OutPiece* piece
        cdef ssize_t sent
        cdef uint64_t left, asked
        cdef int count
        while c.first != NULL:
            count = 0
            asked = 0
            piece = c.first
            while piece != NULL and count < PIECES_PER_WRITE:
                iov[count].iov_base = piece.bytes
                iov[count].iov_len = piece.length
                asked += piece.length
                count += 1
                piece = piece.next
            if count == 1:
                sent = send(c.fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT)
            else:
                memset(&message, 0, sizeof(message))
                message.msg_iov = iov
                message.msg_iovlen = count
                sent = sendmsg(c.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
            self.counters.sends += 1
            if sent < 0:
                if errno == EINTR:
                    continue
                if errno != EAGAIN:
                    self.close_connection(c)
                    return
                sent = 0
            self.counters.sent_bytes += sent
            c.unsent_bytes -= sent
            if sent > 0:
                c.active_ms = self.now_ms
            left = sent
            while c.first != NULL and left >= c.first.length:
                left -= c.first.length
                self.drop_piece(c)
            if left > 0:
                c.first.bytes += left
                c.first.length -= left
            if <uint64_t> sent < asked:
                self.counters.stalls += 1
                if sent > 0 or not c.stalled:
                    stalled_join(&self.stalled, c)
                if self.is_short():
                    self.close_deaf()
                if c.id == 0:
                    return
                if not self.keep_borrowed(c):
                    self.close_connection(c)
                    return
                self.stop_reading(c, UNREAD_UNSENT)
                return
        if c.open_buffer != NULL and c.open_buffer.references == 1:
            buffer_pool_release(&self.reply_pool, c.open_buffer)
            c.open_buffer = NULL
        if c.closing:
            self.close_connection(c)
        elif c.unread & UNREAD_UNSENT or c.notify_drained:
            stalled_leave(&self.stalled, c)
            self.go_on_reading(c, UNREAD_UNSENT)
            self.on_drained(self.owner, c)

    cdef bint is_short(self) noexcept nogil:
        return self.reply_pool.in_use > self.reply_pool.count - self.reply_pool.count // 4

    cdef void close_deaf(self) noexcept nogil:
        """Buffers run out: clients that have not taken a byte for DEAF_MS give theirs back."""
        while (self.is_short() and self.stalled.first != NULL
               and self.now_ms - self.stalled.first.active_ms >= DEAF_MS):
            self.close_longest(NULL)

    cdef bint close_longest(self, Connection* c) noexcept nogil:    # False: that is c, or nobody
        if self.stalled.first == NULL or self.stalled.first == c:
            return False
        self.counters.closed_deaf += 1
        self.close_connection(self.stalled.first)
        return True

    cdef bint keep_borrowed(self, Connection* c) noexcept nogil:
        """Copies what did not leave in this turn from the store, or from scarce jumbo buffers."""
        cdef void* emptied[KEPT_PER_WRITE]
        cdef OutPiece* piece = c.first
        cdef int count = 0
        cdef bint kept
        while self.jumbo_pool.in_use > self.jumbo_pool.count // 2 and piece != NULL \
                and count < KEPT_PER_WRITE:
            if ((piece.kind == IN_JUMBO or piece.kind == IN_JUMBO_HEAD)
                    and piece.length <= KEPT_BYTES):
                emptied[count] = piece.owner
                count += 1
                piece.kind = BORROWED
            piece = piece.next
        kept = self.copy_borrowed(c)
        while not kept and self.close_longest(c):
            kept = self.copy_borrowed(c)
        while count > 0:
            count -= 1
            buffer_pool_release(&self.jumbo_pool, emptied[count])
        return kept

    cdef bint copy_borrowed(self, Connection* c) noexcept nogil:
        cdef OutPiece* piece = c.first
        cdef OutPiece* rest
        cdef ReplyBuffer* buffer
        cdef uint64_t room = REPLY_BYTES - sizeof(ReplyBuffer)
        while piece != NULL:
            if piece.kind == BORROWED:
                # The last ones are for those who read.
                if self.reply_pool.in_use >= self.reply_pool.count - self.reply_pool.count // 16:
                    return False
                buffer = <ReplyBuffer*> buffer_pool_take(&self.reply_pool)
                if buffer == NULL:
                    return False
                buffer.references = 1
                if piece.length > room:
                    rest = <OutPiece*> buffer_pool_take(&self.piece_pool)
                    if rest == NULL:
                        buffer_pool_release(&self.reply_pool, buffer)
                        return False
                    rest[0] = piece[0]
                    rest.bytes += room
                    rest.length -= room
                    piece.next = rest
                    piece.length = room
                    if c.last == piece:
                        c.last = rest
                buffer.used = <uint32_t> piece.length
                memcpy(<uint8_t*> buffer + sizeof(ReplyBuffer), piece.bytes, piece.length)
                piece.bytes = <uint8_t*> buffer + sizeof(ReplyBuffer)
                piece.owner = buffer
                piece.kind = IN_REPLY_BUFFER
            piece = piece.next
        return True

    # ---------------------------------------------------------------- who is not read

    cdef void watch(self, Connection* c) noexcept nogil:
        """Has epoll wait for what the connection is to do next."""
        cdef epoll_event event
        event.events = EPOLLOUT if c.unread & UNREAD_UNSENT else (0 if c.unread else EPOLLIN)
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
        self.unread_counts[number_of(reason)] -= 1
        c.unread &= ~reason
        if c.unread == 0 and reason != UNREAD_UNSENT:
            c.active_ms = self.now_ms           # it was not its own silence
            c.jumbo_ms = self.now_ms
        if c.unread == 0 or reason == UNREAD_UNSENT:
            self.watch(c)

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

    cdef Connection* find(self, uint64_t connection_id) noexcept nogil:
        cdef uint64_t slot = connection_id & SLOT_MASK
        if (connection_id == 0 or slot >= self.highest_slot
                or self.connections[slot].id != connection_id):
            return NULL
        return &self.connections[slot]

    cdef void close_connection(self, Connection* c) noexcept nogil:
        """Closes now; the slot is reused from the next turn on, so pointers stay comparable."""
        cdef int i
        if c.id == 0:
            return
        self.on_closed(self.owner, c)
        self.drop_output(c)
        if c.small != NULL:
            buffer_pool_release(&self.small_pool, c.small)
            c.small = NULL
        if c.jumbo != NULL:
            self.give_half(c)
        stalled_leave(&self.stalled, c)
        close(c.fd)
        c.id = 0
        self.connection_count -= 1
        for i in range(UNREAD_REASONS):
            self.unread_counts[i] -= c.unread >> i & 1
        c.unread = 0
        self.counters.closed += 1
        # A dirty connection is still on that list: free_closed() leaves its slot until it is not.
        c.next_closed = self.closed_first
        self.closed_first = c

    cdef bint displace(self) noexcept nogil:
        """Closes one that asked for nothing since it came, for a new one; False: there is none."""
        cdef Connection* c
        cdef int _i
        for _i in range(min(<int> self.highest_slot, SILENT_LOOKS)):
            self.displace_slot = (self.displace_slot + 1) % self.highest_slot
            c = &self.connections[self.displace_slot]
            if (c.id != 0 and c.frames_in == 0 and c.unread == 0 and not c.dirty
                    and self.now_ms - c.opened_ms >= SILENT_MS):
                self.counters.displaced += 1
                self.close_connection(c)
                return True
        return False

    cdef void free_closed(self) noexcept nogil:
        cdef Connection* c = self.closed_first
        cdef Connection* following
        self.closed_first = NULL
        while c != NULL:
            following = c.next_closed
            if c.dirty:                     # it was given output while it closed
                c.next_closed = self.closed_first
                self.closed_first = c
            else:
                self.drop_output(c)         # of requests that were done with after it closed
                self.free_slots[self.free_count] = c.slot
                self.free_count += 1
            c = following

    cdef void close_idle(self) noexcept nogil:
        """Called about once a second."""
        cdef uint32_t slot
        for slot in range(self.highest_slot):
            if (self.connections[slot].id != 0
                    and self.now_ms - self.connections[slot].active_ms > self.idle_ms):
                self.counters.closed_idle += 1
                self.close_connection(&self.connections[slot])
