"""Requests that speak of a stored record which is not in memory: kept until a disk reader has it.

    handler says NEEDS_RECORD (outcome.pxd) -> the frame is copied, a disk reader fetches the record
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
from libc.stdint cimport int32_t, uint8_t, uint32_t

from cext.flow.fetch.parked_state cimport ParkedRequests, ParkedRequest
from cext.flow.shard_state cimport ShardState
from cext.net.connection cimport Connection
from cext.store.disk_reader cimport ReadJob
from cext.wire.frame cimport Frame

# Keeps a frame whose handler has just said NEEDS_RECORD. False: not now.
cdef bint park_request(ShardState s, Connection* c, const Frame* f, bint resubmitted) noexcept nogil
# A disk reader is done with the job of one.
cdef void parked_read(ShardState s, ReadJob* job) noexcept nogil
# One whose record has been read: it is given to the handlers until parked_end(). NULL: none.
cdef ParkedRequest* parked_begin(ShardState s) noexcept nogil
cdef void parked_end(ShardState s, ParkedRequest* frame) noexcept nogil
# After the disk readers have stopped.
cdef void parked_free(ParkedRequests* x) noexcept nogil
