"""HA stream: what a master and its slaves send on the HA port; bytes <-> numbers, no I/O.

As in RocketMQ's DefaultHAService (brokerRole SYNC_MASTER, ASYNC_MASTER, SLAVE), all numbers big
endian:

    slave -> master, a report   i64 offset              where the slave's log ends
    master -> slave, a frame    i64 offset, i32 count   `count` bytes of the log follow, which
                                                        belong at the offset; 0: a sign of life

A frame's bytes may begin and end anywhere in a record; they never cross the end of a segment. There
is no handshake: a slave's first report says where it wants to go on.

Example: the log ends at 1000 and the slave has 400 bytes. The slave reports 400, is sent the head
(400, 600) and 600 bytes, and reports 1000.

Under a controller (enableControllerMode) the stream is that of AutoSwitchHAService, after a
handshake that the control thread reads (rmq/broker/replication/ha_handshake.py):

    slave -> master, a report   i32 2, i64 offset
    master -> slave, a frame    i32 2, i32 count, i64 offset, i32 epoch, i64 epoch_start,
                                i64 confirmed

All bytes of a frame belong to one epoch, which began at epoch_start. Nothing below `confirmed` is
ever cut off the log. (RocketMQ may label the last piece before a new epoch with the new epoch.)
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.base.byteorder cimport load_i32, load_i64, store_i32, store_i64

cdef enum:
    HA_REPORT_BYTES = 8
    HA_HEAD_BYTES = 12
    HA_FRAME_BYTES_MAX = 1048576    # of a frame that is sent; RocketMQ's slaves accept 4 MiB
    HA_BODY_BYTES_MAX = 67108864    # of an accepted one; RocketMQ's haTransferBatchSize is 32 KiB
    AUTO_SWITCH_REPORT_BYTES = 12
    AUTO_SWITCH_HEAD_BYTES = 36
    HA_HANDSHAKE_BYTES = 16         # of a slave's handshake
    AUTO_SWITCH_HANDSHAKE = 1       # a number of HAConnectionState, as the next one is
    AUTO_SWITCH_TRANSFER = 2        # stands in everything that follows the handshake

cdef struct HAHead:
    int64_t offset
    int32_t count                   # below 0: these bytes are no head
    int32_t epoch                   # this and what follows is 0 without a controller
    int64_t epoch_start
    int64_t confirmed


# `auto_switch`: this is the stream of a broker with a controller.
cdef inline uint32_t ha_head_bytes(bint auto_switch) noexcept nogil:
    return AUTO_SWITCH_HEAD_BYTES if auto_switch else HA_HEAD_BYTES


cdef inline uint32_t ha_report_bytes(bint auto_switch) noexcept nogil:
    return AUTO_SWITCH_REPORT_BYTES if auto_switch else HA_REPORT_BYTES


# Whether a slave's handshake begins here. RocketMQ's slaves repeat it every 5 s until they are
# answered, so one more may follow after the control thread has read theirs.
cdef inline bint is_ha_handshake(const uint8_t* at) noexcept nogil:
    return load_i32(at) == AUTO_SWITCH_HANDSHAKE


# The offset of a report; below 0: these bytes are no report.
cdef inline int64_t ha_report(const uint8_t* at, bint auto_switch) noexcept nogil:
    if not auto_switch:
        return load_i64(at)
    return load_i64(at + 4) if load_i32(at) == AUTO_SWITCH_TRANSFER else -1


cdef inline void write_ha_report(uint8_t* at, int64_t offset, bint auto_switch) noexcept nogil:
    if auto_switch:
        store_i32(at, AUTO_SWITCH_TRANSFER)
        at += 4
    store_i64(at, offset)


cdef inline HAHead ha_head(const uint8_t* at, bint auto_switch) noexcept nogil:
    cdef HAHead head
    if not auto_switch:
        head.offset = load_i64(at)
        head.count = load_i32(at + 8)
        head.epoch = 0
        head.epoch_start = head.confirmed = 0
        return head
    head.count = load_i32(at + 4) if load_i32(at) == AUTO_SWITCH_TRANSFER else -1
    head.offset = load_i64(at + 8)
    head.epoch = load_i32(at + 16)
    head.epoch_start = load_i64(at + 20)
    head.confirmed = load_i64(at + 28)
    return head


cdef inline void write_ha_head(uint8_t* at, const HAHead* head, bint auto_switch) noexcept nogil:
    if not auto_switch:
        store_i64(at, head.offset)
        store_i32(at + 8, head.count)
        return
    store_i32(at, AUTO_SWITCH_TRANSFER)
    store_i32(at + 4, head.count)
    store_i64(at + 8, head.offset)
    store_i32(at + 16, head.epoch)
    store_i64(at + 20, head.epoch_start)
    store_i64(at + 28, head.confirmed)
