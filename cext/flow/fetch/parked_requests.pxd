"""Parked requests: requests that name a stored record on the disk, and wait until it is read.

    handler says NEEDS_RECORD (outcome.pxd) -> the frame is copied, a disk fetch reads the record
                                            -> the frame is handled again and finds it

So the late end of a transaction, or a message that a consumer sends back late, waits for the disk
as pulls of old messages do, and no other client waits with it. When a record cannot be read, the
handler is told that it is damaged. If the client has left meanwhile, the end of a transaction still
counts, unless the transaction was given up before: then control would have to help.

At most PARKED_MAX are under way, at most half of them from one client, and PARKED_BYTES in all; a
request that finds no place is refused, or postponed if nobody would see the refusal. A parked
request is malloc'd with room for a record of ordinary size, and again for a larger one; next to the
disk that costs nothing.

Example: 36 with offset 4096, whose record is on the disk: 100 us later the copy is stored and
answered.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.flow.fetch.disk_fetch cimport DiskFetch, FetchPool
from cext.wire.frame cimport Frame

cdef enum:
    PARKED_MAX = 128
    PARKED_RECORD_BYTES = 8192      # size of a record that needs no more memory
    PARKED_BYTES = 33554432         # of frames and large records in all

cdef struct ParkedRequest:
    DiskFetch* fetch                # owned
    ParkedRequests* table           # the table it stands in
    uint64_t connection_id          # 0: the client has left
    bint resubmitted                # control has given it back once already
    uint8_t* large                  # owned; memory for a record too large for `data`, or NULL
    uint64_t held_bytes             # of the frame and `large`
    uint64_t frame_bytes
    uint8_t data[0]                 # PARKED_RECORD_BYTES for the record, then the whole frame

cdef struct ParkedRequests:
    ParkedRequest* requests[PARKED_MAX]     # owned; the first `count` are under way
    int32_t count
    ParkedRequest* read[PARKED_MAX]         # those whose record has been read, oldest first
    int32_t read_count
    uint64_t held_bytes             # of all of them
    uint64_t records                # records ever read for parked requests
    # What a handler finds (log_view.pxd).
    int64_t wanted                  # set with NEEDS_RECORD: where the record begins
    int64_t given                   # offset of the record read for this request, or -1
    int given_status                # OK; CORRUPT: no record there; NOT_READY: no memory for it
    const uint8_t* bytes            # of the record
    uint64_t byte_count

# Keeps a frame whose handler has just said NEEDS_RECORD. False: there is no room now.
cdef bint park_request(ParkedRequests* x, FetchPool pool, uint64_t connection_id, const Frame* f,
                       bint resubmitted) noexcept nogil
# Takes out a request whose record has been read; the handlers find the record until parked_end() or
# parked_again(). NULL: there is none.
cdef ParkedRequest* parked_begin(ParkedRequests* x, FetchPool pool) noexcept nogil
# The turn has no room for the request: it will be the first again, in the next turn.
cdef void parked_again(ParkedRequests* x, ParkedRequest* request) noexcept nogil
cdef void parked_end(ParkedRequests* x, FetchPool pool, ParkedRequest* request) noexcept nogil
# Called after the disk readers have stopped; the fetches are freed with their pool.
cdef void parked_free(ParkedRequests* x) noexcept nogil
