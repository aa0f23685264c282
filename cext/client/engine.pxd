"""Engine: the client's network thread. One per process is enough; it never takes the GIL.

    engine = Engine(); engine.start()
    link = engine.link("10.0.0.7", 10911)          # a number; connects with its first frame
    reply = engine.call(link, frame, 3000)         # waits; Reply, or UnreachableError
    engine.submit(link, frame, 3000, mailbox, done)   # mailbox.deliver() calls done(reply, error)
    engine.post(link, frame, 1 << 20, 3000)        # one-way; waits while a MiB is to be sent there
    engine.notices.deliver(...)                    # requests of brokers, and lost connections

Frames come from cext/client/request.pyx (any request, any header) with an opaque of 0, which the
engine sets. All Python methods may be called from any thread. Other modules of cext send like this:
take the lock and a slot (claim_slot), write the frame, mark the link (link_mark), release the lock,
then wake the thread if it sleeps (needs_wake, engine_wake).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.base.sysio cimport event_signal
from cext.client.mailbox cimport EngineBase, Mailbox
from cext.client.state cimport Batch, EngineState, Link, Slot


cdef enum:
    WAIT_US = 100_000        # longest single wait of a caller; then it looks again
    STOOD_US = 250_000       # if a wait ends later by more, the thread was not let run

# A slot for a Python caller, which waits for one up to `timeout_us`, without the GIL. NULL: none
# came free; otherwise the engine's lock is held on return. `mailbox`: where the request's end will
# be told. A caller that is delivering at the moment may get the slot of a request whose end it has
# begun to tell; if it delivers from `mailbox` itself, it does not wait for a slot. `until_us` is
# set to the end of the caller's time. The clock for that is read under the lock. If the process
# stands still after that, the engine finds the slot and gives the time back; if it stood still
# before, the time was not counted. Time in which the thread waited and was not let run is not
# counted either.
cdef Slot* claim_slot(EngineState* state, int64_t timeout_us, int64_t* until_us, Mailbox mailbox)

# For a caller that waits, and looks again after WAIT_US at most: whether any of its `timeout_us`,
# which began with its first look, is left. Time in which the process stood still between two looks
# (stopped, swapped out, its machine paused) does not count. looked_us: its last look, by
# machine_us; 0 before the first look.
cdef bint has_time(int64_t timeout_us, int64_t* looked_us, int64_t* until_us) noexcept nogil

# Lock held. Whether the thread sleeps beyond until_us (0: sleeps at all); then release the lock and
# call engine_wake.
cdef inline bint needs_wake(EngineState* state, int64_t until_us) noexcept nogil:
    if state.sleeping and until_us < state.sleep_until_us:
        state.sleeping = False
        return True
    return False


cdef inline void engine_wake(EngineState* state) noexcept nogil:
    event_signal(state.wake_fd)


# Lock held. Puts the batch's frame into its link's buffer and starts its time. OK | POOL_EMPTY.
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
