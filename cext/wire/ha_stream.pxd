"""HA stream: what a master and its slaves say on the HA port; bytes <-> numbers, no I/O.

RocketMQ's DefaultHAService (brokerRole SYNC_MASTER, ASYNC_MASTER, SLAVE), all numbers big endian:

    slave -> master, a report   i64 offset              its log ends there
    master -> slave, a frame    i64 offset, i32 count   so many bytes of the log follow, and belong
                                                        at the offset; 0: a sign of life

A frame's bytes begin and end anywhere in a record; they never cross the end of a segment. There is
no greeting: a slave's first report says where it wants to go on.

Example: log end 1000, the slave has 400: it says 400, and is sent (400, 600) and 600 bytes; it
says 1000.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t

from cext.base.byteorder cimport load_i32, load_i64, store_i32, store_i64

cdef enum:
    HA_REPORT_BYTES = 8
    HA_HEAD_BYTES = 12
    HA_FRAME_BYTES_MAX = 1048576    # of a frame that we send; RocketMQ's slaves take 4 MiB
    HA_BODY_BYTES_MAX = 67108864    # of one that we take; RocketMQ's haTransferBatchSize is 32 KiB

cdef struct HAHead:
    int64_t offset
    int32_t count


cdef inline int64_t ha_report(const uint8_t* at) noexcept nogil:
    return load_i64(at)


cdef inline void write_ha_report(uint8_t* at, int64_t offset) noexcept nogil:
    store_i64(at, offset)


cdef inline HAHead ha_head(const uint8_t* at) noexcept nogil:
    cdef HAHead head
    head.offset = load_i64(at)
    head.count = load_i32(at + 8)
    return head


cdef inline void write_ha_head(uint8_t* at, int64_t offset, int32_t count) noexcept nogil:
    store_i64(at, offset)
    store_i32(at + 8, count)
