"""Requests that wait for a record from the disk (parked_requests.pxd), and the record that one is
given."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cext.store.disk_reader cimport ReadJob

cdef enum:
    PARKED_MAX = 128
    PARKED_RECORD_BYTES = 8192      # of a record, without more memory for it
    PARKED_BYTES = 33554432         # of frames and large records in all

cdef struct ParkedRequest:
    ReadJob read
    uint64_t connection_id
    bint resubmitted                # control has helped with it already
    uint8_t* large                  # owned: for a record that `data` has no room for, or NULL
    uint64_t held_bytes             # of the frame, and of `large`
    uint64_t frame_bytes
    uint8_t data[0]                 # PARKED_RECORD_BYTES for the record, then the whole frame

cdef struct ParkedRequests:
    ParkedRequest* frames[PARKED_MAX]   # owned; the first `count` are under way
    int32_t count
    ParkedRequest* read[PARKED_MAX]     # of these, whose record has been read, oldest first
    int32_t read_count
    uint64_t held_bytes             # of all of them
    uint64_t records                # ever asked for
    # What a handler finds (log_view.pxd).
    int64_t wanted                  # NEEDS_RECORD: where the record begins
    int64_t given                   # the record that has been read for this request, or -1
    int given_status                # OK, CORRUPT: there is none, NOT_READY: no memory for it
    const uint8_t* bytes            # of it
    uint64_t byte_count
