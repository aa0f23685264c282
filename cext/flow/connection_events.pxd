"""Connection events: what the network half (cext/net) reports of a connection, and what flow does.

    bytes       every whole frame among them goes to the request router
    no buffer   for a frame of this size: the answer is SYSTEM_BUSY, made from the frame's header
    closed      what waits for the client (pulls, replies) is dropped; the control thread is told
    drained     all output is sent: deferred pulls go on; control is told when it asked to be

Reactor only.
"""
from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.pull.pull_service cimport PullService
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.request_router cimport RequestRouter

cdef class ConnectionEvents:
    cdef TurnContext turn
    cdef RequestRouter router
    cdef PullService pull               # pulls that wait for a client
    cdef ReplyService reply             # pushed replies that wait for a client's answer

# Serves the clients of this listening socket from the next turn on (over TLS for those who speak
# it). OK, or add_listener()'s failure (cext/net/reactor.pxd).
cdef int serve(ConnectionEvents s, int listen_fd, AuthService auth) noexcept nogil
# Takes what the poll found: new clients, and bytes of the others.
cdef Step receive_step(ConnectionEvents s) noexcept
# Sends the turn's output, one writev for each connection, and closes what must be closed.
cdef Step flush_step(ConnectionEvents s) noexcept
