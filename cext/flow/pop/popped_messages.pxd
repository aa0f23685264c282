"""Popped messages: what one pop has found so far, and the texts about it for the reply."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.tables.topic_table cimport Topic
from cext.wire.replies cimport POP_TEXT_BYTES_MAX
from cext.wire.revive_entry cimport CHECK_POINT_MESSAGES_MAX

cdef enum:
    MESSAGES_MAX = CHECK_POINT_MESSAGES_MAX

cdef struct Note:               # one of the reply's texts
    uint32_t length
    char text[POP_TEXT_BYTES_MAX]

cdef struct Popped:
    int64_t pop_ms
    int32_t revive_queue
    int32_t count
    uint64_t bytes              # of all messages
    const uint8_t* at[MESSAGES_MAX]     # messages of the topic itself, borrowed
    uint32_t sizes[MESSAGES_MAX]
    int32_t borrowed
    uint8_t* copies             # jumbo buffer with messages of the retry topic, or NULL
    uint64_t copied
    int64_t rest                # messages that are left in the queues
    bint unfinished             # the turn's cost of filters is spent
    bint failed                 # the log takes no check points
    bint others                 # the retry topic also belongs to another group
    bint absent                 # records at absent_offset are not in memory
    Topic* absent_topic
    int32_t absent_queue
    int64_t absent_offset
    Topic* large_topic          # of the first message too large to be given; NULL: none
    int32_t large_queue
    int64_t large_offset
    int64_t large_bytes
    # When, by the wall clock, a blocked queue may be free, or a failed repair is tried again; 0: no
    # queue waits for that.
    int64_t visible_ms
    # The notes stand last: popped_begin() does not clear their texts.
    Note starts
    Note messages
    Note orders

# Clears it: nothing has been found yet.
cdef void popped_begin(Popped* p, int64_t pop_ms) noexcept nogil
# Adds the entry "flag queue number". A pop gives at most MESSAGES_MAX messages, so there is room.
cdef void note(Note* n, int32_t flag, int32_t queue_id, int64_t number) noexcept nogil
# Adds one more number to the entry that was noted last: ",number".
cdef void note_next(Note* n, int64_t number) noexcept nogil
# Adds the entry "flag qo<queue>%<offset> <times>".
cdef void note_order(Note* n, int32_t flag, int32_t queue_id, int64_t offset,
                     int32_t times) noexcept nogil
# A queue that gives nothing now may give something at `at_ms`.
cdef void look_again(Popped* p, int64_t at_ms) noexcept nogil
