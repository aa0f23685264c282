"""Control inbox: what the control thread has put into the reactor's ring (control_link.pxd).

    calls       are run here, while the caller waits
    frames      given back when what they lacked is there: they go to the request router
    replies     are put into the output of their connection
    the rest    concerns one connection: hold, release, close, tell control when it is drained

Reactor only.
"""
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.request_router cimport RequestRouter
from cext.flow.send.send_service cimport SendService

cdef class ControlInbox:
    cdef TurnContext turn               # its link has the ring
    cdef SendService send
    cdef RequestRouter router

# Empties the ring.
cdef Step control_step(ControlInbox s) noexcept
