"""Postponed requests: one-way ones that cannot be done now, and whose refusal nobody would see.

    end of a transaction, one-way, while the log takes nothing (its next file is not ready, the
    broker starts), or while too much waits for control or for the disk
        -> kept, tried again in the next turns, POSTPONED_MS at most; not while the broker takes no
           writes (TurnContext.writable): that lasts, and a check back asks again
        -> its connection is not read meanwhile (UNREAD_POSTPONED): so what is kept of one client is
           what one receive brought

When one was not done in time, none is kept for the next GIVEN_UP_MS: what lasts is not to make
clients wait over and over.

A turn tries at most TRIES_MAX and gives up for the turn after REFUSALS_MAX that could not be done
again; who was refused goes to the end of the row. What is not done in time, or would be more than
POSTPONED_BYTES, is dropped and counted: a transaction is then still open, and asked about later.

They are malloc'd: none is made while the log takes what comes.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from cext.net.connection cimport Connection
from cext.net.reactor cimport Reactor
from cext.wire.frame cimport Frame

cdef enum:
    POSTPONED_MS = 3000
    POSTPONED_BYTES = 16777216
    GIVEN_UP_MS = 30000
    TRIES_MAX = 256
    REFUSALS_MAX = 8

cdef struct PostponedFrame:
    PostponedFrame* next
    uint64_t connection_id
    int64_t deadline_ms         # monotonic
    bint resubmitted            # control has helped with it already
    uint64_t frame_bytes
    uint8_t data[0]             # the whole frame

cdef struct Postponed:
    PostponedFrame* first       # owned
    PostponedFrame* last
    PostponedFrame* current     # owned; being tried
    bint refused                # the current one was postponed again
    int64_t keep_ms             # monotonic; nothing is kept before
    uint64_t bytes
    uint64_t count              # ever postponed
    uint64_t dropped

# Keeps a frame; the one being tried is kept as it is.
cdef void postpone(Postponed* p, Reactor net, Connection* c, const Frame* f,
                   bint resubmitted) noexcept nogil
# Takes out the first one to be tried, or NULL; postponed_tried() must follow. The second says
# whether it was refused. Or postponed_again(): the turn has no room, it stays the first one.
cdef PostponedFrame* postponed_next(Postponed* p) noexcept nogil
cdef bint postponed_tried(Postponed* p, Reactor net) noexcept nogil
cdef void postponed_again(Postponed* p) noexcept nogil
cdef void postponed_free(Postponed* p) noexcept nogil
