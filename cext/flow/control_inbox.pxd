"""Control inbox: what the control thread has put into the reactor's ring (control_link.pxd).

    calls       run here, while their caller waits
    frames      given back with what was missing: the request router
    replies     into the output of their connection
    the rest    about one connection: hold, release, close, tell when it is drained

Reactor only.
"""
from cext.flow.shard_state cimport ShardState

# Empties the ring.
cdef void take_control_messages(ShardState s) noexcept nogil
