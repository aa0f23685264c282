"""Properties: the string of name-value pairs that travels with a message and is stored with it.

    name 0x01 value 0x02 name 0x01 value 0x02 ...      UTF-8, the last 0x02 may be missing

All functions take the UNESCAPED form (call text_copy first for a JSON header). The string is read
as Java does: pieces end at 0x02; a piece is a pair when its first 0x01 is neither its first nor its
last byte, and is ignored otherwise; of two equal names the later counts.

Example: KEYS 01 k1 02 TAGS 01 A 02 -> keys "k1", tags "A"; tags_code("A") == 65.

Any thread, no state but a table filled at import.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport strlen

from cext.wire.text cimport Text

cdef enum:
    NAME_VALUE_SEPARATOR = 1
    PROPERTY_SEPARATOR = 2


cdef struct SendProperties:
    # Values, borrowed from the scanned bytes, never escaped; bytes NULL when absent.
    Text tags                    # TAGS: the one tag
    Text keys                    # KEYS: tokens joined by blanks
    Text uniq_key                # UNIQ_KEY: the client's message id
    Text wait                    # WAIT
    Text delay                   # DELAY: delay level as decimal
    Text transaction             # TRAN_MSG
    Text producer_group          # PGROUP, for transaction checks
    Text retry_topic             # RETRY_TOPIC: where a retried message came from
    Text real_topic              # REAL_TOPIC: target of a delayed or half message
    Text real_queue_id           # REAL_QID
    Text origin_message_id       # ORIGIN_MESSAGE_ID
    Text timer_delay_sec         # TIMER_DELAY_SEC
    Text timer_delay_ms          # TIMER_DELAY_MS
    Text timer_deliver_ms        # TIMER_DELIVER_MS
    Text timer_delete_key        # TIMER_DEL_UNIQKEY: cancels a timer message
    Text msg_region              # MSG_REGION
    Text trace_on                # TRACE_ON
    Text cluster                 # CLUSTER
    Text pop_check_point         # POP_CK: never accepted from outside
    Text multi_dispatch          # INNER_MULTI_DISPATCH
    Text inner_count             # INNER_NUM
    Text born_host               # __BORNHOST
    Text message_type            # MSG_TYPE
    Text timer_out_ms            # TIMER_OUT_MS: the message was stored as a timed one before
    Text timer_roll_times        # TIMER_ROLL_TIMES: how often it was stored anew
    Text sharding_key            # __SHARDINGKEY: messages with equal ones stay in order
    # Conclusions from the values above.
    int32_t delay_level          # 0 when DELAY is absent
    bint has_delay               # delay_level > 0
    bint has_transaction         # TRAN_MSG is true: a half message
    bint has_timer               # TIMER_DELAY_SEC, _DELAY_MS or _DELIVER_MS, and no TIMER_OUT_MS
    bint wait_store_ok           # WAIT absent or true
    bint terminated              # empty, or ends with 0x02: another pair may be appended as it is


# Reads in one pass. OK | MALFORMED (DELAY is not a number) | TOO_LARGE (over PROPERTIES_BYTES_MAX).
cdef int scan_properties(const uint8_t* bytes, uint32_t length, SendProperties* out) noexcept nogil

# The same for a message of a batch, of which only three things are needed: its tag; whether it is
# special (delayed, timed, half), which no message of a batch may be; and whether it has properties
# that are reserved for the broker (property_edit.pxd): `reserved` is set then and never cleared.
# OK | MALFORMED | TOO_LARGE.
cdef int scan_batched(const uint8_t* bytes, uint32_t length, Text* tags, bint* special,
                      bint* reserved) noexcept nogil

# The value of any property; False when it is not there. Of equal names the last counts.
cdef bint find_property(const uint8_t* bytes, uint32_t length, const char* name,
                        Text* out) noexcept nogil

# What the queue entry holds for a tag: Java's String.hashCode (over UTF-16 units, wrapping at 32
# bits), sign-extended; 0 for an empty tag. Invalid UTF-8 counts as U+FFFD, as Java decodes it.
cdef int64_t tags_code(const uint8_t* utf8, uint32_t length) noexcept nogil

cdef uint32_t append_named(uint8_t* out, const char* name, uint32_t name_length,
                           const uint8_t* value, uint32_t value_length) noexcept nogil
cdef uint32_t append_named_number(uint8_t* out, const char* name, uint32_t name_length,
                                  int64_t value) noexcept nogil


cdef inline uint32_t append_property(uint8_t* out, const char* name, const uint8_t* value,
                                     uint32_t value_length) noexcept nogil:
    """Writes name 0x01 value 0x02 and returns the bytes written; `out` needs property_bytes() of
    room. The compiler counts the length of a name that is a literal."""
    return append_named(out, name, <uint32_t> strlen(name), value, value_length)


cdef inline uint32_t append_number(uint8_t* out, const char* name, int64_t value) noexcept nogil:
    """The same for a number, in decimal digits (20 at most)."""
    return append_named_number(out, name, <uint32_t> strlen(name), value)


cdef inline uint32_t property_bytes(uint32_t name_length, uint32_t value_length) noexcept nogil:
    return name_length + value_length + 2
