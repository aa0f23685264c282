"""Handshake thread. See handshake_thread.pxd.

No wake-up is lost: the side that is about to sleep sets its flag (`sleeping`, `is_awaited`), looks
into its ring once more, and only then waits for its eventfd. The other side pushes first and looks
at the flag afterwards. Both sides have a fence between the two operations, so at least one of them
sees what the other has done.
"""
from libc.stdint cimport uint32_t, uint64_t

from cext.base.atomics cimport exchange_i32, fence, load_acquire_i32, load_seq_i32, store_seq_i32
from cext.base.native_thread cimport native_thread_join, native_thread_start
from cext.base.status cimport IO_ERROR, OK, POOL_EMPTY
from cext.base.sysio cimport close_file, event_open, event_signal, event_wait
from cext.memory.spsc_ring cimport (
    spsc_close, spsc_is_empty, spsc_open_in, spsc_own_pop, spsc_own_push, spsc_pop, spsc_put,
    spsc_arena_bytes,
)
from cext.net.connection cimport TRANSPORT_FAILED

cdef extern from "<unistd.h>" nogil:
    int nice(int more)

cdef enum:
    STEPS_MAX = 65536
    NICE = 5                        # a third of the time that a thread of usual priority gets

cdef const char* ROOM = b"the handshake thread: room for each step that is out"


cdef uint32_t steps_of(uint32_t connections_max) noexcept nogil:
    """One for each connection, rounded up to a power of two, at most STEPS_MAX."""
    cdef uint32_t steps = 64
    while steps < connections_max and steps < STEPS_MAX:
        steps *= 2
    return steps


cdef uint64_t handshake_thread_arena_bytes(uint32_t connections_max) noexcept nogil:
    return 2 * spsc_arena_bytes(steps_of(connections_max))


cdef int handshake_thread_open(HandshakeThread* t, Arena* arena,
                               uint32_t connections_max) noexcept nogil:
    cdef int error = 0
    cdef uint32_t steps = steps_of(connections_max)
    if spsc_open_in(&t.wanted, arena, steps) != OK or spsc_open_in(&t.done, arena, steps) != OK:
        return POOL_EMPTY
    t.wake_fd = event_open(&error)
    t.done_fd = event_open(&error)
    t.steps_max = steps
    return OK if t.wake_fd >= 0 and t.done_fd >= 0 else IO_ERROR


cdef void handshake_thread_close(HandshakeThread* t) noexcept nogil:
    spsc_close(&t.wanted)
    spsc_close(&t.done)
    if t.steps_max > 0:
        close_file(t.wake_fd)
        close_file(t.done_fd)
    t.steps_max = 0


cdef void run(void* argument) noexcept nogil:
    cdef HandshakeThread* t = <HandshakeThread*> argument
    cdef HandshakeStep* step
    nice(NICE)                      # on Linux this is the priority of the calling thread alone
    spsc_own_pop(&t.wanted, True)
    spsc_own_push(&t.done, True)
    while not load_seq_i32(&t.stopping):
        step = <HandshakeStep*> spsc_pop(&t.wanted)
        if step != NULL:
            if load_acquire_i32(&step.is_given_up):
                step.result = TRANSPORT_FAILED
            else:
                step.run(step)
            spsc_put(&t.done, step, ROOM)
            fence()
            if exchange_i32(&t.is_awaited, 0):
                event_signal(t.done_fd)
            continue
        store_seq_i32(&t.sleeping, 1)
        fence()
        if spsc_is_empty(&t.wanted) and not load_seq_i32(&t.stopping):
            event_wait(t.wake_fd, -1)
        store_seq_i32(&t.sleeping, 0)
    spsc_own_pop(&t.wanted, False)
    spsc_own_push(&t.done, False)


cdef int handshake_thread_start(HandshakeThread* t, int* error) noexcept nogil:
    store_seq_i32(&t.stopping, 0)
    return native_thread_start(&t.thread, &run, t, b"rmq-handshakes", error)


cdef void handshake_thread_stop(HandshakeThread* t) noexcept nogil:
    cdef HandshakeStep* step
    if t.thread.running:
        store_seq_i32(&t.stopping, 1)
        event_signal(t.wake_fd)
        native_thread_join(&t.thread)
    while not spsc_is_empty(&t.wanted):
        step = <HandshakeStep*> spsc_pop(&t.wanted)
        step.result = TRANSPORT_FAILED
        spsc_put(&t.done, step, ROOM)


cdef bint handshake_thread_give(HandshakeThread* t, HandshakeStep* step) noexcept nogil:
    if t.steps_out == t.steps_max:
        return False
    t.steps_out += 1
    step.is_out = True
    spsc_put(&t.wanted, step, ROOM)
    fence()
    if load_seq_i32(&t.sleeping):
        event_signal(t.wake_fd)
    return True


cdef HandshakeStep* handshake_thread_take(HandshakeThread* t) noexcept nogil:
    cdef HandshakeStep* step = <HandshakeStep*> spsc_pop(&t.done)
    if step != NULL:
        t.steps_out -= 1
        step.is_out = False
        step.is_back = True
    return step


cdef bint handshake_thread_await(HandshakeThread* t) noexcept nogil:
    if t.steps_out == 0:
        return True
    store_seq_i32(&t.is_awaited, 1)
    fence()
    return spsc_is_empty(&t.done)


cdef void handshake_thread_forget(HandshakeThread* t) noexcept nogil:
    if load_acquire_i32(&t.is_awaited):
        store_seq_i32(&t.is_awaited, 0)
