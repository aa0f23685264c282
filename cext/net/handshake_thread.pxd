"""Handshake thread: where the handshakes of a reactor's connections are computed, beside its turns.

    reactor --- wanted (SPSC ring of HandshakeStep*) ---> thread
    reactor <-- done (the same structs back) ------------ thread

A step is what one side does until the other has to say more. One of a full TLS handshake costs as
much as some hundred requests, for which clients would wait that have nothing to do with it. One
that costs less than the way here and back is short, and the reactor runs it itself. The thread
gives way to those who share its core. What it shares with the reactor nevertheless, and may hold
when it is interrupted, are locks of OpenSSL's contexts and of malloc.

From its way out until it is taken back a step belongs to the thread, and with it what it holds: the
socket is not closed meanwhile. If the connection closes by then, the step is given up; the reactor
takes it back, drops it and closes the socket, which counts as a connection until then.

Example: 500 clients begin at once. The reactor looks at their first bytes, goes on serving others,
and hears of each when its answer has been sent.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.memory.arena cimport Arena
from cext.memory.spsc_ring cimport SpscRing

cdef struct HandshakeStep:
    # The thread's, or the reactor's where it is short: sets `result`; ELSEWHERE: it was not short.
    void (*run)(HandshakeStep* step) noexcept nogil
    # Reactor: it is back, its connection is gone. Frees what it is part of, and closes the socket.
    void (*drop)(HandshakeStep* step) noexcept nogil
    uint64_t connection_id
    int fd
    int result                      # 0: the handshake is over; or a TransportResult
    bint is_out                     # the thread has it
    int32_t is_given_up             # its connection has closed: it need not be run
    bint is_back                    # and `result` was not looked at yet
    bint is_short                   # said by its transport before it is run

cdef struct HandshakeThread:
    SpscRing wanted                 # reactor pushes
    SpscRing done                   # the thread pushes
    uint32_t steps_max              # 0: never opened
    uint32_t steps_out              # the reactor's: in the rings, or in the thread's hands
    int wake_fd                     # owned; the thread sleeps there
    int done_fd                     # owned; rung for a step that is done while the reactor sleeps
    int32_t sleeping
    int32_t is_awaited              # the reactor sleeps
    int32_t stopping
    NativeThread thread

# What handshake_thread_open takes from the arena.
cdef uint64_t handshake_thread_arena_bytes(uint32_t connections_max) noexcept nogil
# OK | POOL_EMPTY | IO_ERROR. Of one that is all zeros; close whatever came of it.
cdef int handshake_thread_open(HandshakeThread* t, Arena* arena,
                               uint32_t connections_max) noexcept nogil
cdef void handshake_thread_close(HandshakeThread* t) noexcept nogil
# OK | IO_ERROR, *error says why.
cdef int handshake_thread_start(HandshakeThread* t, int* error) noexcept nogil
# When no turn runs any more: what was out is to be taken back, and has failed where it was not
# begun. Harmless when the thread does not run. Call without the GIL.
cdef void handshake_thread_stop(HandshakeThread* t) noexcept nogil
# Reactor. False: too many are out.
cdef bint handshake_thread_give(HandshakeThread* t, HandshakeStep* step) noexcept nogil
cdef HandshakeStep* handshake_thread_take(HandshakeThread* t) noexcept nogil  # NULL: none is done
# Reactor, before it sleeps: whether it may. If so, done_fd is rung for the next step.
cdef bint handshake_thread_await(HandshakeThread* t) noexcept nogil
# Reactor, when it is awake.
cdef void handshake_thread_forget(HandshakeThread* t) noexcept nogil
