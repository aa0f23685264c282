"""Merged ack: acks of one check point that came in one turn, before they become one record.

pop_merge gathers them.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.append.ack_queue cimport AckReply

cdef enum:
    MERGED_ACKS = 32                # at most
    MERGED_NAMES_BYTES = 1024

cdef struct MergedAck:
    int32_t count                   # 0: the place is free
    int32_t queue_id
    int32_t revive_queue
    uint32_t lengths[3]
    int64_t start_offset
    int64_t pop_ms
    int64_t invisible_ms
    int64_t offsets[MERGED_ACKS]
    AckReply replies[MERGED_ACKS]
    uint8_t names[MERGED_NAMES_BYTES]       # topic, group, broker
