"""Loop: what the client's thread does, from loop_start until `stopping` is set.

    loop_start(state, &error)
    store_release_i32(&state.stopping, 1); event_signal(state.wake_fd)
    native_thread_join(&state.thread)

The thread belongs to an Engine (engine.pxd), which makes the state before and frees it after.
"""
from libc.stdint cimport int64_t

from cext.client.state cimport Batch, EngineState

cdef enum:
    FOREVER_US = 0x7FFFFFFFFFFFFFFF  # EngineState.next_deadline_us: no request is under way

# OK | IO_ERROR (errno in *error). Ends all requests as stopped before the thread ends.
cdef int loop_start(EngineState* state, int* error) noexcept nogil

# Lock held. Puts the batch's frame into its link's buffer and starts its time. OK | POOL_EMPTY.
# The loop does it with a batch whose time has come, a sender with one that is full.
cdef int seal_batch(EngineState* state, Batch* batch, int64_t now_us) noexcept nogil
