"""Reactor. See reactor.pxd."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.check cimport check
from cext.base.clock cimport machine_us, monotonic_us, sleep_ms
from cext.base.status cimport IO_ERROR, OK, POOL_EMPTY
from cext.memory.arena cimport arena_page_bytes, arena_take_pages
from cext.net.address_table cimport (
    HANDSHAKES_LIMIT, NO_LIMIT, address_begin, address_end,
)
from cext.net.connection cimport (
    ELSEWHERE,
    HANDSHAKE_BEGUN,
    HANDSHAKE_ELSEWHERE,
    HANDSHAKE_WRITES,
    OWNER_BLOCK_WORDS,
    RECEIVE_WRITES,
    SEND_READS,
    WANT_READ,
    WANT_WRITE,
    WANTS_ADDRESS,
    WANTS_HANDSHAKE,
)
from cext.net.handshake_thread cimport (
    HandshakeStep, handshake_thread_await, handshake_thread_forget, handshake_thread_give,
    handshake_thread_take,
)
from cext.net.input cimport input_arena_bytes
from cext.net.listener cimport (
    listener_accept, listener_resume, listener_stop, listener_watch,
)
from cext.net.socket_api cimport (
    EFD_CLOEXEC,
    EFD_NONBLOCK,
    EPOLL_CTL_ADD,
    EPOLLERR,
    EPOLLHUP,
    EPOLLIN,
    EPOLLOUT,
    close,
    epoll_ctl,
    epoll_event,
    epoll_wait,
    eventfd,
    read,
)

cdef enum:
    EVENTS_PER_POLL = 256
    # Received in one turn. The next poll reports the remaining sockets again, except those in a
    # handshake, which are always served.
    TURN_BYTES = 8388608
    SHORT_STEPS = 16                # of handshakes in one turn; each takes 20 to 100 us


cdef uint64_t reactor_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
    return arena_page_bytes(EVENTS_PER_POLL * sizeof(epoll_event)) + input_arena_bytes(
        frame_max_bytes, connections_max, jumbo_count, reply_count)


cdef inline void receive_event(Reactor net, void* at, uint32_t events,
                               uint64_t bytes_end) noexcept nogil:
    cdef uint64_t ignored
    if at == <void*> &net.wake_fd:
        read(net.wake_fd, &ignored, 8)
    elif at >= <void*> &net.other_fds[0] and at < <void*> &net.other_fds[OTHERS_MAX]:
        read((<int*> at)[0], &ignored, 8)
    elif at >= <void*> &net.listeners[0] and at < <void*> &net.listeners[LISTENERS_MAX]:
        listener_accept(<Listener*> at, net)
    elif at != NULL and (events != EPOLLIN or net.counters.received_bytes < bytes_end
                         or (<Connection*> at).transport_wants & WANTS_HANDSHAKE):
        net.connection_ready(<Connection*> at, events)


@cython.no_gc_clear                  # __dealloc__ needs all members
cdef class Reactor(Input):
    def __cinit__(self):
        self.wake_fd = -1

    def __dealloc__(self):
        if self.wake_fd >= 0:
            close(self.wake_fd)

    cdef int open(self, uint64_t frame_max_bytes, uint32_t connections_max,
                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil:
        cdef epoll_event event
        cdef int i
        self.events = arena_take_pages(&self.memory.arena, EVENTS_PER_POLL * sizeof(epoll_event))
        if self.events == NULL or self.open_input(frame_max_bytes, connections_max, jumbo_count,
                                                  reply_count) != OK:
            return IO_ERROR
        self.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.wake_fd < 0:
            return IO_ERROR
        event.events = EPOLLIN
        event.data.ptr = &self.wake_fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.wake_fd, &event) != 0:
            return IO_ERROR
        for i in range(self.other_count):
            event.data.ptr = &self.other_fds[i]
            if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.other_fds[i], &event) != 0:
                return IO_ERROR
        return OK

    cdef void add_wake_fd(self, int fd) noexcept nogil:
        check(self.other_count < OTHERS_MAX, b"the network: descriptors that wake the loop",
              self.other_count, OTHERS_MAX)
        self.other_fds[self.other_count] = fd
        self.other_count += 1

    cdef int add_listener(self, int fd, const Protocol* protocol,
                          const Transport* transport) noexcept nogil:
        cdef Listener* listener = &self.listeners[self.listener_count]
        check(protocol.block_bytes <= 8 * OWNER_BLOCK_WORDS,
              b"the network: what a protocol remembers of a connection fits its block",
              protocol.block_bytes, 8 * OWNER_BLOCK_WORDS)
        if self.listener_count == LISTENERS_MAX:
            return POOL_EMPTY
        listener.fd = fd
        listener.paused = False
        listener.protocol = protocol[0]
        listener.transport = transport
        if listener_watch(listener, self) != OK:
            return IO_ERROR
        self.listener_count += 1
        return OK

    # ---------------------------------------------------------------- the turn

    cdef void poll(self, int32_t timeout_ms) noexcept nogil:
        if self.place.connection != NULL:
            self.forget_closed()
        else:
            self.next_event = 0
            self.event_count = self.wait_ready(self.sleeps_ms(timeout_ms))
            if self.handshakes != NULL:
                handshake_thread_forget(self.handshakes)
        self.short_steps = 0
        self.now_us = monotonic_us()
        self.now_ms = self.now_us // 1000

    cdef int32_t sleeps_ms(self, int32_t timeout_ms) noexcept nogil:
        """0 if there is work that no descriptor tells of."""
        if timeout_ms == 0 or self.pending_first != NULL:
            return 0
        if self.handshakes != NULL and not handshake_thread_await(self.handshakes):
            return 0
        return timeout_ms

    cdef int wait_ready(self, int32_t timeout_ms) noexcept nogil:
        cdef epoll_event* events = <epoll_event*> self.events
        cdef int64_t until_us
        cdef int found
        if self.busy_poll_us > 0 and timeout_ms != 0:
            found = epoll_wait(self.epoll_fd, events, EVENTS_PER_POLL, 0)
            until_us = machine_us() + self.busy_poll_us
            while found == 0 and machine_us() < until_us:
                found = epoll_wait(self.epoll_fd, events, EVENTS_PER_POLL, 0)
                self.busy_polls += found > 0
            if found != 0:
                return found
        return epoll_wait(self.epoll_fd, events, EVENTS_PER_POLL, sleep_ms(timeout_ms))

    cdef void forget_closed(self) noexcept nogil:
        """Drops the remaining events of connections closed in the turn before: their slots may have
        been given to new connections."""
        cdef epoll_event* events = <epoll_event*> self.events
        cdef Connection* c
        cdef int i
        for i in range(self.next_event, self.event_count):
            c = <Connection*> events[i].data.ptr
            if (c >= self.connections and c < self.connections + self.connections_max
                    and c.id == 0):
                events[i].data.ptr = NULL

    cdef void receive_ready(self) noexcept nogil:
        cdef epoll_event* events = <epoll_event*> self.events
        cdef uint64_t bytes_end = self.counters.received_bytes + TURN_BYTES
        if self.place.connection != NULL:
            self.go_on()
        elif self.pending_first != NULL:
            self.pending_now = self.pending_first
            self.pending_first = NULL
        while self.next_event < self.event_count and self.place.connection == NULL:
            receive_event(self, events[self.next_event].data.ptr,
                          events[self.next_event].events, bytes_end)
            self.next_event += 1
        if self.handshakes != NULL:
            self.take_steps()
        while self.pending_now != NULL and self.place.connection == NULL:
            self.receive_pending()

    cdef void receive_pending(self) noexcept nogil:
        cdef Connection* c = self.pending_now
        self.pending_now = c.next_pending
        c.pending = 0
        if (c.id != 0 and not c.closing and c.unread == 0
                and not c.transport_wants & WANTS_HANDSHAKE):
            self.receive(c)

    cdef void connection_ready(self, Connection* c, uint32_t events) noexcept nogil:
        if c.id == 0:
            return                          # closed earlier in this turn
        if c.transport != NULL:
            events = self.transport_ready(c, events)
        if events & EPOLLOUT:
            self.mark_dirty(c)              # flush() continues to send
        if c.closing:
            if events & (EPOLLHUP | EPOLLERR):
                self.close_connection(c)    # nobody is left to take the rest
        elif events & (EPOLLHUP | EPOLLERR) or (events & EPOLLIN and c.unread == 0):
            self.receive(c)

    cdef uint32_t transport_ready(self, Connection* c, uint32_t events) noexcept nogil:
        cdef uint8_t wants = c.transport_wants
        cdef uint32_t meant = events
        if wants & WANTS_HANDSHAKE:
            return self.shake_hands(c)
        if events & EPOLLIN and wants & SEND_READS:
            c.transport_wants &= ~<uint8_t> SEND_READS
            meant |= EPOLLOUT
        if events & EPOLLOUT and wants & RECEIVE_WRITES:
            c.transport_wants &= ~<uint8_t> RECEIVE_WRITES
            meant |= EPOLLIN
        if c.transport_wants != wants:
            self.watch(c)
        return meant

    cdef uint32_t shake_hands(self, Connection* c) noexcept nogil:
        cdef uint8_t wanted = c.transport_wants
        cdef int result
        if c.transport_wants & HANDSHAKE_ELSEWHERE:
            return 0
        result = c.transport.handshake(c)
        if wanted & ~c.transport_wants & WANTS_ADDRESS and not self.count_address(c):
            return 0
        if c.transport_wants & HANDSHAKE_BEGUN and not wanted & HANDSHAKE_BEGUN:
            c.opened_ms = self.now_ms       # it has HANDSHAKE_MS from now
        if result == ELSEWHERE:
            result = self.run_step(c)
            if result == ELSEWHERE:
                return 0
        if result == WANT_READ or result == WANT_WRITE:
            c.transport_wants = (WANTS_HANDSHAKE
                                 | c.transport_wants & (HANDSHAKE_BEGUN | WANTS_ADDRESS)
                                 | (HANDSHAKE_WRITES if result == WANT_WRITE else 0))
            self.watch(c)
            return 0
        if result < 0:
            self.close_failed(c)
            return 0
        c.transport_wants = 0
        address_end(c)
        c.active_ms = self.now_ms
        self.watch(c)
        if c.transport != NULL:             # it may have found that none is needed
            self.look_for_pending(c)
        return EPOLLIN | EPOLLOUT           # bytes may be here already, and output may be waiting

    cdef void close_failed(self, Connection* c) noexcept nogil:
        if c.transport_wants & WANTS_ADDRESS and c.transport_wants & HANDSHAKE_BEGUN:
            self.counters.refused_words += 1
            self.refuse_address(c)
        else:
            self.close_connection(c)

    cdef int run_step(self, Connection* c) noexcept nogil:
        """A TransportResult. ELSEWHERE: the thread has the step, or the connection was refused."""
        cdef HandshakeStep* step = <HandshakeStep*> c.transport_state
        cdef int result
        cdef int limit = address_begin(&self.addresses, c, self.now_ms)
        if limit == HANDSHAKES_LIMIT and self.displace(c, True):
            limit = NO_LIMIT
        step.is_short = step.is_short and self.short_steps < SHORT_STEPS
        if limit == NO_LIMIT and step.is_short:
            self.short_steps += 1
            step.run(step)
            step.is_back = True
            result = c.transport.handshake(c)
            if result != ELSEWHERE:
                return result
        if limit == NO_LIMIT and handshake_thread_give(self.handshakes, step):
            c.transport_wants |= HANDSHAKE_ELSEWHERE
        else:
            self.counters.refused_handshakes += 1
            self.refuse_address(c)
        return ELSEWHERE

    cdef void take_steps(self) noexcept nogil:
        cdef HandshakeStep* step
        cdef Connection* c
        while self.place.connection == NULL:
            step = handshake_thread_take(self.handshakes)
            if step == NULL:
                return
            c = self.find(step.connection_id)
            if c == NULL:
                self.drop_orphan(step)
            else:
                c.transport_wants &= ~<uint8_t> HANDSHAKE_ELSEWHERE
                self.connection_ready(c, 0)

    # ---------------------------------------------------------------- listeners

    cdef void resume_accepting(self) noexcept nogil:
        cdef int i
        for i in range(self.listener_count):
            listener_resume(&self.listeners[i], self)

    cdef void stop_accepting(self) noexcept nogil:
        cdef int i
        for i in range(self.listener_count):
            listener_stop(&self.listeners[i], self)
