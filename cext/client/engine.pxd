"""Engine: the client's network thread. One per process is enough; it never takes the GIL.

    engine = Engine(); engine.start()
    link = engine.link("10.0.0.7", 10911)          # a number; connects with its first frame
    reply = engine.call(link, frame, 3000)         # waits; Reply, or UnreachableError
    engine.submit(link, frame, 3000, mailbox, done)   # done(reply, error) when mailbox.deliver()
    engine.post(link, frame, 1 << 20, 3000)        # one-way; waits while a MiB is to be sent there
    engine.notices.deliver(...)                    # what brokers ask us, and lost connections

Frames come from cext/client/request.pyx (any request, any header) with an opaque of 0; it is set
here. All methods of Python may be called from any thread. `enqueue` is the door for senders of
other modules: lock held, slot taken, frame written, link marked, lock released, then `wake`.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.client.mailbox cimport EngineBase, Mailbox
from cext.client.state cimport Batch, EngineState, Link, Slot


cdef enum:
    WAIT_US = 100_000        # of one wait of a caller; then it looks again
    STOOD_US = 250_000       # so much beyond a wait's end: the thread was not let run

# A slot for a Python caller, who waits up to `timeout_us` for one, without the GIL. NULL: none came
# free; else the engine's lock is held on return. `mailbox`: where the request's end will be told. A
# caller who is just delivering gets the slot of a request whose end it has begun to tell, and does
# not wait for one if it delivers from that mailbox. `until_us` is set to the end of the caller's
# time. The clock for that is read under the lock: where the process stands still later, the engine
# finds the slot and gives the time back, and where it stood still before, that time was not
# counted. Nor does time count in which the thread waited and was not let run.
cdef Slot* claim_slot(EngineState* state, int64_t timeout_us, int64_t* until_us, Mailbox mailbox)

# For a caller that waits and looks again every WAIT_US at most: whether it has time left, of the
# `timeout_us` that began with its first look. Time in which the process stood still between two
# looks (stopped, swapped out, its machine paused) does not count. looked_us: when it looked last,
# by machine_us; 0 before the first look.
cdef bint has_time(int64_t timeout_us, int64_t* looked_us, int64_t* until_us) noexcept nogil

# Lock held: True when the thread sleeps beyond until_us (0: at all); then call engine_wake, lock
# released.
cdef bint needs_wake(EngineState* state, int64_t until_us) noexcept nogil
cdef void engine_wake(EngineState* state) noexcept nogil

# Lock held: the batch's frame goes into its link's buffer and its time starts. OK | POOL_EMPTY.
cdef int seal_batch(EngineState* state, Batch* batch, int64_t now_us) noexcept nogil


cdef class Engine(EngineBase):
    cdef readonly Mailbox notices    # ASKED and DROPPED
    cdef object __weakref__
    cdef dict numbers                # (host, port) -> link
    cdef list names                  # link -> "host:port"

    cdef void stop_thread(self)
    cdef Link* link_of(self, int32_t number) except NULL
    cdef str name_of(self, int32_t link)
    cdef str tls_hint(self, int32_t link)
