"""Offset commit (15 UPDATE_CONSUMER_OFFSET): a group's progress on a queue.

Example: consumerGroup=g, topic=t, queueId=3, commitOffset=128: the next message that group g wants
from queue 3 of t is number 128.

Any thread, no state.
"""
from libc.stdint cimport int32_t, int64_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef struct OffsetCommit:
    Text consumer_group             # both borrow from the frame and may be escaped
    Text topic
    int64_t offset                  # commitOffset, as sent
    int32_t queue_id

# OK | MISSING_FIELD | MALFORMED (not a number, or out of range).
cdef int read_offset_commit(const Header* header, OffsetCommit* out) noexcept nogil
