"""Reply table: consumers' replies that were pushed to their producer and are not answered yet.

The slots lie in the arena, the free ones in a list. The opaque of a push is
PUSH_OPAQUE | uses of the slot << SLOT_BITS | slot, so control's own requests stay below
PUSH_OPAQUE.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.memory.arena cimport Arena
from cext.memory.name_map cimport NameMap

cdef enum:
    PUSH_OPAQUE = 0x40000000        # bit that all opaques of pushes have
    SLOT_BITS = 12
    PUSHES_MAX = 4096               # 1 << SLOT_BITS
    USES_MASK = 0x3FFFF             # what is left of 30 bits
    CLIENT_SHOWN = 96               # bytes of a client's id in a remark

cdef struct PushedReply:
    uint64_t to_id                  # connection of the producer that asked; 0: the slot is free
    uint64_t from_id                # connection that gets the answer to 324 / 325
    int64_t arrived_ms              # monotonic
    int64_t physical_offset         # of the stored reply; -1: it is not stored
    int64_t queue_offset
    int32_t queue_id
    int32_t opaque                  # of the consumer's request
    int32_t request_code
    uint8_t serialize_type
    uint32_t uses                   # of the slot
    int32_t next_free               # next slot in the list, -1: none
    uint32_t client_bytes
    uint8_t client[CLIENT_SHOWN]    # the client's id, maybe cut off

cdef struct ReplyTable:
    PushedReply* slots              # in the arena
    int32_t first_free              # first in the list of free slots, -1: none
    int32_t fresh                   # slots from here on were never used
    int32_t count                   # under way
    NameMap clients                 # client id -> connection id, as a pointer
    uint64_t pushed                 # counters
    uint64_t failed

cdef uint64_t reply_table_arena_bytes() noexcept nogil
cdef int reply_table_open(ReplyTable* table, Arena* arena) noexcept nogil
cdef void reply_table_close(ReplyTable* table) noexcept nogil
# A free slot, or NULL; reply_table_take() sets its to_id, and only then is it in use.
cdef PushedReply* reply_table_next(ReplyTable* table) noexcept nogil
cdef int32_t reply_table_take(ReplyTable* table, PushedReply* slot, uint64_t to_id) noexcept nogil
# The push with this opaque that waits for an answer from this connection, or NULL.
cdef PushedReply* reply_table_find(ReplyTable* table, int32_t opaque, uint64_t to_id) noexcept nogil
cdef void reply_table_free(ReplyTable* table, PushedReply* slot) noexcept nogil
# Counts the slots anew: each is under way or free. Looks at all that were ever used.
cdef void reply_table_check(ReplyTable* table) noexcept nogil
