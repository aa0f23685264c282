"""Reactor: listeners and the poll loop of one thread, on epoll and without the interpreter.

    while not stopped:
        reactor.poll(timeout)     waits for sockets; the clock is read once, here
        reactor.receive_ready()   accept; receive from every readable socket; on_bytes for each
        ... the layer above writes the log, answers pulls, queues replies ...
        reactor.flush()           one send per connection with output; closes what is to be closed

Busy polling. With `busy_poll_us` a poll that may sleep first looks for so long without sleeping:
who waits for an answer before he asks again does not wait for the loop to be woken, too.

A full turn. Where a protocol says that no more of what came fits into this turn (TURN_FULL), it
stops handing out: the rest of the received bytes and of what poll found is the next turn's, which
begins there and does not poll. Nothing is copied, and nothing overtakes.

What connections are, and how their bytes come and go, is in the pages of its base classes
(connection_table.pxd). What is said on a connection is its listener's Protocol (connection.pxd).

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

# What Reactor.open takes from the arena with the same arguments.
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
    cdef uint64_t busy_polls        # that found nothing at once, and something before they slept
    cdef Connection* pending_now    # the pending ones of this turn that were not read yet

    # Takes all memory and descriptors the loop will ever use; OK or IO_ERROR.
    cdef int open(self, uint64_t frame_max_bytes, uint32_t connections_max,
                  uint32_t jumbo_count, uint32_t reply_count) noexcept nogil
    cdef void add_wake_fd(self, int fd) noexcept nogil      # before open(); at most OTHERS_MAX
    # After open(). Socket and transport (NULL: plain) are borrowed, the protocol is copied. OK,
    # IO_ERROR (epoll) or POOL_EMPTY (LISTENERS_MAX).
    cdef int add_listener(self, int fd, const Protocol* protocol,
                          const Transport* transport) noexcept nogil
    cdef void poll(self, int32_t timeout_ms) noexcept nogil         # waits; reads the clock
    # As long, or 0: something waits that no socket tells of.
    cdef int32_t sleeps_ms(self, int32_t timeout_ms) noexcept nogil
    # How many sockets are ready, or -1: a signal came. Counts what was found without a sleep.
    cdef int wait_ready(self, int32_t timeout_ms) noexcept nogil
    cdef void receive_ready(self) noexcept nogil                    # handles what poll found
    cdef void resume_accepting(self) noexcept nogil                 # about once a second
    cdef void stop_accepting(self) noexcept nogil
    cdef void receive_pending(self) noexcept nogil
    cdef void forget_closed(self) noexcept nogil
    cdef void connection_ready(self, Connection* c, uint32_t events) noexcept nogil
    # What the socket's events mean above its transport.
    cdef uint32_t transport_ready(self, Connection* c, uint32_t events) noexcept nogil
    cdef uint32_t shake_hands(self, Connection* c) noexcept nogil
    # One whose handshake has come to nothing.
    cdef void close_failed(self, Connection* c) noexcept nogil
    # Its next step goes to the thread, or it is closed: its address has begun too many.
    cdef int run_step(self, Connection* c) noexcept nogil
    # Of those whose step was elsewhere and is back.
    cdef void take_steps(self) noexcept nogil
