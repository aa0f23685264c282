"""Connection events: what the network half (cext/net) reports of a connection, and what flow does.

    bytes       every whole frame among them goes to the request router
    no buffer   for a frame of its size: SYSTEM_BUSY, by its header
    closed      pulls, replies and the control thread that wait for the client forget it
    drained     all output is sent: deferred pulls go on, control is told when it asked for it

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
    cdef PullService pull               # what waits for a client: pulls,
    cdef ReplyService reply             # pushed replies

# Clients of this listening socket are served from the next turn on, by TLS if that is spoken; OK,
# or add_listener()'s failure (cext/net/reactor.pxd).
cdef int serve(ConnectionEvents s, int listen_fd, AuthService auth) noexcept nogil
# What poll found: clients come, and their bytes.
cdef Step receive_step(ConnectionEvents s) noexcept
# The turn's output leaves, one writev for each connection; what is to be closed is.
cdef Step flush_step(ConnectionEvents s) noexcept
