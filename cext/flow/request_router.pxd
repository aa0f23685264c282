"""Request router: from a whole frame to the handler of its request code, and what follows.

    frame -> header -> row of the handler table -> admission, where there are accounts
          -> handler -> Outcome (outcome.pxd)
        DONE                    that was it
        TO_CONTROL..            the frame goes to the control thread, as that of every code without
                                a row; given back, such a code is refused
        NEEDS_RECORD            the frame waits for a disk reader (parked_requests.pxd)
        NOT_NOW                 the frame is kept for the next turns (postponed_requests.pxd)
        TURN_FULL               said to the caller: the frame stays where it is until the next turn
        CLOSE_CONNECTION        said to the caller
    The control thread or the disk readers are too busy: SYSTEM_BUSY.

What comes again (given back by control, with its record from the disk, or postponed) takes the same
way; of a client that is gone meanwhile without admission, which has had it. A new request code is
one row of the table in request_router.pyx; docs/contributing.md has what else it needs.

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
    cdef ReplyService reply             # whose pushes clients answer
    cdef SendService send               # which sends control has
    cdef void* services[SERVICES]       # BY_.. -> borrowed; the shard has them
    cdef HeaderShapes shapes            # of request headers, to spare parsing
    cdef Postponed postponed            # one-way requests to be tried again

# `resubmitted`: the control thread has had the frame and gave it back: what is still missing now is
# refused, not asked for again.
ctypedef Outcome (*RunHandler)(void* service, Connection* c, const Header* h, const Frame* f,
                               bint resubmitted) noexcept nogil

cdef enum HandlerTrait:
    # While the broker starts control gets it: groups and offsets are not loaded yet.
    AFTER_START = 1
    # What it asks for counts though its client is gone, and one-way it is kept when it cannot be
    # done at the moment. Others are dropped then: their clients ask again.
    OUTLIVES_CLIENT = 2

cdef struct RequestHandler:
    int32_t code
    int32_t traits              # HandlerTrait bits
    int32_t service             # BY_..: what `run` works on
    RunHandler run

# One request, or a client's answer to one of ours. DONE, TURN_FULL or CLOSE_CONNECTION.
cdef Outcome route_frame(RequestRouter s, Connection* c, const Frame* f,
                         bint resubmitted) noexcept nogil
# A whole frame with its length bytes, once more. Its client may be gone, or is closed. False: the
# turn is full, and the frame is to come again in the next one.
cdef bint route_again(RequestRouter s, uint64_t connection_id, const uint8_t* bytes,
                      uint64_t length, bint resubmitted) noexcept nogil
# Requests whose record has come from the disk, as far as the turn has room for them.
cdef Step fetched_step(RequestRouter s) noexcept
# Some of those that could not be done before; the rest waits for the next turn.
cdef Step postponed_step(RequestRouter s) noexcept
