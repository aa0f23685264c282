"""Reactor: listeners and the poll loop of one thread, on epoll and without the interpreter.

    while not stopped:
        reactor.poll(timeout)     waits for sockets; the clock is read once, here
        reactor.receive_ready()   accept; receive from every readable socket; on_bytes for each
        ... the layer above writes the log, answers pulls, queues replies ...
        reactor.flush()           one send per connection with output; closes what is to be closed

Busy polling. With `busy_poll_us` a poll that may sleep first looks for that long without sleeping,
so that a client that waits for each answer does not also wait for the loop to wake up.

A full turn. A protocol can say that no more of the received bytes fits into this turn (TURN_FULL).
The reactor then stops handing bytes over. The next turn does not poll: it continues with the rest
of those bytes and with the sockets that the last poll found. Nothing is copied or reordered.

Connections, and how bytes are received and sent, are described in the base classes
(connection_table.pxd). The meaning of the bytes is the listener's Protocol (connection.pxd).

Example of one turn with 64 clients that each sent one message: 1 epoll_wait, 64 recv, then (in the
flow layer) 1 pwritev, then 64 sends.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from cext.net.connection cimport Connection, Protocol, Transport
from cext.net.input cimport Input
from cext.net.listener cimport Listener

cdef enum:
    LISTENERS_MAX = 16
    OTHERS_MAX = 4                  # wake descriptors of other threads

# The bytes that Reactor.open takes from the arena for the same arguments.
cdef uint64_t reactor_arena_bytes(uint64_t frame_max_bytes, uint32_t connections_max,
                                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil

cdef class Reactor(Input):
    cdef Listener listeners[LISTENERS_MAX]
    cdef int listener_count
    cdef int wake_fd                # eventfd; any thread may write to it
    cdef int other_fds[OTHERS_MAX]   # borrowed: eventfds of other threads that wake the loop
    cdef int other_count
    cdef void* events               # epoll_event[EVENTS_PER_POLL] of the last poll
    cdef int event_count
    cdef int next_event             # where a full turn stopped
    cdef int32_t busy_poll_us       # how long a poll looks before it sleeps; 0: it sleeps at once
    cdef uint64_t busy_polls        # polls that found something while they looked, before sleeping
    cdef Connection* pending_now    # pending connections of this turn that have not been read yet
    cdef int short_steps            # of handshakes that this turn has run

    # Takes all memory and descriptors the loop will ever use; OK or IO_ERROR.
    cdef int open(self, uint64_t frame_max_bytes, uint32_t connections_max,
                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    cdef void add_wake_fd(self, int fd) noexcept nogil      # before open(); at most OTHERS_MAX
    # After open(). Socket and transport (NULL: plain) are borrowed, the protocol is copied. OK,
    # IO_ERROR (epoll) or POOL_EMPTY (LISTENERS_MAX).
    cdef int add_listener(self, int fd, const Protocol* protocol,
                          const Transport* transport) noexcept nogil
    cdef void poll(self, int32_t timeout_ms) noexcept nogil         # waits; reads the clock
    # How long the poll may sleep: timeout_ms, or 0 if there is work that no socket tells of.
    cdef int32_t sleeps_ms(self, int32_t timeout_ms) noexcept nogil
    # How many sockets are ready, or -1 if a signal came. Counts busy polls.
    cdef int wait_ready(self, int32_t timeout_ms) noexcept nogil
    cdef void receive_ready(self) noexcept nogil                    # handles what poll found
    cdef void resume_accepting(self) noexcept nogil                 # about once a second
    cdef void stop_accepting(self) noexcept nogil
    cdef void receive_pending(self) noexcept nogil
    cdef void forget_closed(self) noexcept nogil
    cdef void connection_ready(self, Connection* c, uint32_t events) noexcept nogil
    # Translates the socket's events to what they mean for the protocol above the transport.
    cdef uint32_t transport_ready(self, Connection* c, uint32_t events) noexcept nogil
    cdef uint32_t shake_hands(self, Connection* c) noexcept nogil
    # Closes a connection whose handshake has failed.
    cdef void close_failed(self, Connection* c) noexcept nogil
    # Runs the next step of a handshake if it is short, unless the turn has run many of them
    # already; else gives it to the thread. Closes the connection if its address has begun too many
    # handshakes.
    cdef int run_step(self, Connection* c) noexcept nogil
    # Continues the handshakes whose steps the thread has finished.
    cdef void take_steps(self) noexcept nogil
