"""Postponed requests: one-way requests that cannot be done now, and whose refusal nobody would see.

    a one-way end of a transaction comes while the log takes nothing (its next file is not ready, or
    the broker is starting), or while too many requests wait for control or for the disk
        -> it is kept and tried again in the next turns, for POSTPONED_MS at most; but not while the
           broker takes no writes (is_writable of role.pxd): that lasts, and a check back asks again
        -> its connection is not read meanwhile (UNREAD_POSTPONED), so no more is kept of one client
           than one receive brought

When a request was not done in time, none is kept for the next GIVEN_UP_MS: an obstacle that lasts
must not make clients wait over and over.

A turn tries at most TRIES_MAX requests, and stops trying after REFUSALS_MAX that could still not be
done; each of these goes to the end of the row. A request that is not done in time, or would exceed
POSTPONED_BYTES, is dropped and counted: its transaction stays open and is asked about later.

The frames are malloc'd: none is kept while the log takes what comes.
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
    bint resubmitted            # control has given it back once already
    uint64_t frame_bytes
    uint8_t data[0]             # the whole frame

cdef struct Postponed:
    PostponedFrame* first       # owned
    PostponedFrame* last
    PostponedFrame* current     # owned; the one being tried
    bint refused                # the current one could not be done this time either
    int64_t keep_ms             # monotonic; before this time nothing is kept
    uint64_t bytes
    uint64_t count              # ever postponed
    uint64_t dropped

# Keeps a copy of the frame; while a kept frame is being tried, only notes that it was refused.
cdef void postpone(Postponed* p, Reactor net, Connection* c, const Frame* f,
                   bint resubmitted) noexcept nogil
# Takes out the first frame, to be tried; NULL when there is none. After the try call either
# postponed_tried(), which returns whether the frame was refused once more, or, when the turn had no
# room for it, postponed_again(), which makes it the first one again.
cdef PostponedFrame* postponed_next(Postponed* p) noexcept nogil
cdef bint postponed_tried(Postponed* p, Reactor net) noexcept nogil
cdef void postponed_again(Postponed* p) noexcept nogil
cdef void postponed_free(Postponed* p) noexcept nogil
