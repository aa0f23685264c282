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

# A slot for a Python caller, waiting `timeout_us` for one (GIL released); NULL: none came free.
# Returns with the engine's lock held unless NULL. `mailbox`: where the end will be told. Who tells
# there does not wait, and gets one of those whose ends it has begun to tell. `until_us` is set
# to the end of that time, by a clock read under the lock: if the process stands still after that,
# the engine finds the slot when it forgives, and if before, it does not count. Time in which the
# thread was not let run while it waited is added.
cdef Slot* claim_slot(EngineState* state, int64_t timeout_us, int64_t* until_us, Mailbox mailbox)

# A look of a caller that waits, WAIT_US at most between two: whether its time is not over yet, that
# is `timeout_us` from the first look on. What the process stood still since the last one (stopped,
# swapped out, its machine paused) is no time of it. looked_us: 0 before the first; by machine_us.
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
    cdef object refusal(self)        # the exception when claim_slot gave none
    cdef str name_of(self, int32_t link)
    cdef str tls_hint(self, int32_t link)
