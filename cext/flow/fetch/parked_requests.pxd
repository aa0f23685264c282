"""Parked requests: they speak of a stored record that is not in memory, and wait until it is read.

    handler says NEEDS_RECORD (outcome.pxd) -> the frame is copied, a disk fetch reads the record
                                            -> the frame is handled again and finds it

So the end of an old transaction and what a consumer sends back late wait for the disk as pulls of
old messages do, and nobody else waits. A record that is not to be had is told to the handler as
damaged. The client may be gone meanwhile; the end of a transaction counts all the same, unless the
transaction was given up before: then control would have to help.

At most PARKED_MAX are under way, half of them of one client, with PARKED_BYTES; who comes then is
refused, or postponed if nobody would hear of it. They are malloc'd, with room for a record of
ordinary size, and once more for a larger one: it is the disk that they wait for.

Example: 36 with offset 4096, which is on the disk: 100 us later the copy is stored and answered.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.flow.fetch.disk_fetch cimport DiskFetch, FetchPool
from cext.wire.frame cimport Frame

cdef enum:
    PARKED_MAX = 128
    PARKED_RECORD_BYTES = 8192      # of a record, without more memory for it
    PARKED_BYTES = 33554432         # of frames and large records in all

cdef struct ParkedRequest:
    DiskFetch* fetch                # owned
    ParkedRequests* table           # that it stands in
    uint64_t connection_id          # 0: the client has left
    bint resubmitted                # control has helped with it already
    uint8_t* large                  # owned: for a record that `data` has no room for, or NULL
    uint64_t held_bytes             # of the frame, and of `large`
    uint64_t frame_bytes
    uint8_t data[0]                 # PARKED_RECORD_BYTES for the record, then the whole frame

cdef struct ParkedRequests:
    ParkedRequest* requests[PARKED_MAX]     # owned; the first `count` are under way
    int32_t count
    ParkedRequest* read[PARKED_MAX]         # of these, whose record has been read, oldest first
    int32_t read_count
    uint64_t held_bytes             # of all of them
    uint64_t records                # ever read for one
    # What a handler finds (log_view.pxd).
    int64_t wanted                  # NEEDS_RECORD: where the record begins
    int64_t given                   # the record that has been read for this request, or -1
    int given_status                # OK, CORRUPT: there is none, NOT_READY: no memory for it
    const uint8_t* bytes            # of it
    uint64_t byte_count

# Keeps a frame whose handler has just said NEEDS_RECORD. False: not now.
cdef bint park_request(ParkedRequests* x, FetchPool pool, uint64_t connection_id, const Frame* f,
                       bint resubmitted) noexcept nogil
# One whose record has been read: it is given to the handlers until parked_end() or
# parked_again(). NULL: none.
cdef ParkedRequest* parked_begin(ParkedRequests* x, FetchPool pool) noexcept nogil
# The turn has no room for it: it is the first once more, in the next one.
cdef void parked_again(ParkedRequests* x, ParkedRequest* request) noexcept nogil
cdef void parked_end(ParkedRequests* x, FetchPool pool, ParkedRequest* request) noexcept nogil
# After the disk readers have stopped; the fetches go with their pool.
cdef void parked_free(ParkedRequests* x) noexcept nogil
