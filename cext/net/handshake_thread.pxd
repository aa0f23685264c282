"""Handshake thread: computes the TLS handshakes of a reactor's connections, beside its turns.

    reactor --- wanted (SPSC ring of HandshakeStep*) ---> thread
    reactor <-- done (the same structs back) ------------ thread

A step is what the server does until it needs more from the client. A step of a full handshake costs
as much as some hundred requests; in the reactor, every other client would wait for it. A step that
costs less than handing it over is short: the reactor runs it itself. The thread runs at a lower
priority than the reactor. The two still share the locks inside OpenSSL's contexts and malloc, which
the thread may hold while it is interrupted.

A step belongs to the thread from the moment it is given until the reactor takes it back, together
with everything it holds, so its socket is not closed meanwhile. If the connection closes in
between, the step is given up: the reactor takes it back, drops it and closes the socket. Until then
the socket counts as a connection.

Example: 500 clients connect at once. The reactor looks at their first bytes, goes on serving other
clients, and takes back each step when the thread has sent its answer.
"""
from libc.stdint cimport int32_t, uint32_t, uint64_t

from cext.base.native_thread cimport NativeThread
from cext.memory.arena cimport Arena
from cext.memory.spsc_ring cimport SpscRing

cdef struct HandshakeStep:
    # Called by the thread, or by the reactor if the step is short. Sets `result`; ELSEWHERE means
    # that the step is not short after all and must go to the thread.
    void (*run)(HandshakeStep* step) noexcept nogil
    # Called by the reactor when the step comes back after its connection has closed. Frees the
    # state around the step and closes the socket.
    void (*drop)(HandshakeStep* step) noexcept nogil
    uint64_t connection_id
    int fd
    int result                      # 0: the handshake is over; or a TransportResult
    bint is_out                     # the thread has it
    int32_t is_given_up             # its connection has closed: the step need not be run
    bint is_back                    # it was run, and its `result` has not been read yet
    bint is_short                   # set by the transport before the step is run

cdef struct HandshakeThread:
    SpscRing wanted                 # reactor pushes
    SpscRing done                   # the thread pushes
    uint32_t steps_max              # 0: never opened
    uint32_t steps_out              # the reactor's count of steps that the thread has
    int wake_fd                     # owned; the thread sleeps on it
    int done_fd                     # owned; signalled when a step is done while the reactor sleeps
    int32_t sleeping                # the thread sleeps
    int32_t is_awaited              # the reactor sleeps
    int32_t stopping
    NativeThread thread

# The bytes that handshake_thread_open takes from the arena.
cdef uint64_t handshake_thread_arena_bytes(uint32_t connections_max) noexcept nogil
# OK | POOL_EMPTY | IO_ERROR. `t` must be all zeros; close it in any case.
cdef int handshake_thread_open(HandshakeThread* t, Arena* arena,
                               uint32_t connections_max) noexcept nogil
cdef void handshake_thread_close(HandshakeThread* t) noexcept nogil
# OK | IO_ERROR, with the errno in *error.
cdef int handshake_thread_start(HandshakeThread* t, int* error) noexcept nogil
# Call without the GIL, after the last turn. Steps that were out can be taken back afterwards; those
# that had not been run have failed. Harmless if the thread does not run.
cdef void handshake_thread_stop(HandshakeThread* t) noexcept nogil
# Called by the reactor. False: too many steps are out.
cdef bint handshake_thread_give(HandshakeThread* t, HandshakeStep* step) noexcept nogil
# Called by the reactor. NULL: no step is done.
cdef HandshakeStep* handshake_thread_take(HandshakeThread* t) noexcept nogil
# Called by the reactor before it sleeps. True: it may sleep, and done_fd will be signalled when the
# next step is done.
cdef bint handshake_thread_await(HandshakeThread* t) noexcept nogil
# Called by the reactor when it is awake.
cdef void handshake_thread_forget(HandshakeThread* t) noexcept nogil
