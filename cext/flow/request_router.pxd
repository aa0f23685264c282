"""Request router: from a whole frame to the handler of its request code, and what follows.

    frame -> header -> row of the handler table -> admission, where there are accounts
          -> handler -> Outcome (outcome.pxd)
        DONE                    nothing more to do
        TO_CONTROL..            the frame goes to the control thread, as does every code without a
                                row; a code without a row that control gives back is refused
        NEEDS_RECORD            the frame waits for a disk reader (parked_requests.pxd)
        NOT_NOW                 the frame is kept for the next turns (postponed_requests.pxd)
        TURN_FULL               passed to the caller: the frame stays in the connection's buffer
                                until the next turn
        CLOSE_CONNECTION        passed to the caller
    When the control thread or the disk readers are too busy, the answer is SYSTEM_BUSY.

A frame that comes again (given back by control, with its record from the disk, or postponed) takes
the same way; if its client has left meanwhile, it skips admission, which it has already passed. A
new request code is one row of the table in request_router.pyx; docs/contributing.md has what else
it needs.

Example: 11 PULL_MESSAGE of an unknown topic: accept_pull() says TO_CONTROL; the frame comes back
from control by route_again(), resubmitted; accept_pull() puts the pull into the turn's list: DONE.

Reactor only.
"""
from libc.stdint cimport int32_t, uint8_t, uint64_t

from cext.flow.auth.auth_service cimport AuthService
from cext.flow.context.outcome cimport Outcome
from cext.flow.context.service cimport Service
from cext.flow.context.step cimport Step
from cext.flow.context.turn_context cimport TurnContext
from cext.flow.fetch.fetch_service cimport FetchService
from cext.flow.postponed_requests cimport Postponed
from cext.flow.request_reply.reply_service cimport ReplyService
from cext.flow.send.send_service cimport SendService
from cext.net.connection cimport Connection
from cext.wire.frame cimport Frame
from cext.wire.header cimport Header
from cext.wire.header_shapes cimport HeaderShapes

# Which service a request's handler is given.
cdef enum:
    BY_TABLES = 0
    BY_PULL = 1
    BY_TRANSACTION = 2
    BY_REPLY = 3
    BY_SEND = 4
    BY_POP = 5
    SERVICES = 6

cdef class RequestRouter(Service):
    cdef TurnContext turn
    cdef AuthService auth               # whether a request may be served
    cdef FetchService fetch             # where a frame waits for its record
    cdef ReplyService reply             # pushes that clients answer
    cdef SendService send               # sends that wait at control
    cdef void* services[SERVICES]       # BY_.. -> borrowed; the shard owns them
    cdef HeaderShapes shapes            # of request headers, to spare parsing
    cdef Postponed postponed            # one-way requests to be tried again

# `resubmitted`: the control thread has had this frame and gave it back. If something is still
# missing, the request is refused instead of being handed over again.
ctypedef Outcome (*RunHandler)(void* service, Connection* c, const Header* h, const Frame* f,
                               bint resubmitted) noexcept nogil

cdef enum HandlerTrait:
    # While the broker starts, such requests go to control: groups and offsets are not loaded yet.
    AFTER_START = 1
    # Such a request is done even when its client has left, and a one-way one is kept when it cannot
    # be done now. Other requests are dropped in these cases: their clients ask again.
    OUTLIVES_CLIENT = 2

cdef struct RequestHandler:
    int32_t code
    int32_t traits              # HandlerTrait bits
    int32_t service             # BY_..: what `run` works on
    RunHandler run

# Routes one request, or a client's answer to a request of this broker. DONE, TURN_FULL or
# CLOSE_CONNECTION.
cdef Outcome route_frame(RequestRouter s, Connection* c, const Frame* f,
                         bint resubmitted) noexcept nogil
# Routes a whole frame (with its length bytes) once more. Its client may have left; on
# CLOSE_CONNECTION the connection is closed here. False: the turn is full, and the caller must bring
# the frame again in the next one.
cdef bint route_again(RequestRouter s, uint64_t connection_id, const uint8_t* bytes,
                      uint64_t length, bint resubmitted) noexcept nogil
# Routes requests whose record has come from the disk, as far as the turn has room for them.
cdef Step fetched_step(RequestRouter s) noexcept
# Tries some of the postponed requests again; the rest waits for the next turn.
cdef Step postponed_step(RequestRouter s) noexcept
