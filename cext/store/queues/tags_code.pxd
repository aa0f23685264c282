"""Tags code: the number in a record's queue entry that filters use, computed from the record.

    property TAGS              Java's String.hashCode of its value, sign-extended; 0 without TAGS
    topic SCHEDULE_TOPIC_XXXX  with a DELAY level: the time in ms when the message is due

It is used when queues are rebuilt from the log. At run time an append takes the code from the
request's properties (cext/flow/append/message_append, by cext/wire/properties: store does not see
wire).

Example: TAGS "TagA" -> 2598919; DELAY "3" stored at 1,000,000 -> 1,010,000 (level 3 is 10 s).
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.store.log.record cimport RecordView
from cext.wire.limits cimport DELAY_LEVELS_MAX

cdef struct DelayLevels:
    int32_t count
    int64_t milliseconds[DELAY_LEVELS_MAX]      # [0] is level 1

cdef int64_t java_hash(const uint8_t* utf8, uint32_t length) noexcept nogil
# The value of a property in stored form (name 01 value 02 ...), or NULL; sets *length. Of equal
# names the last one with a value counts, as in Java.
cdef const uint8_t* stored_property(const uint8_t* properties, uint32_t properties_bytes,
                                    const char* name, uint32_t name_bytes,
                                    uint32_t* length) noexcept nogil
cdef int64_t tags_code_of(const RecordView* record, const DelayLevels* levels) noexcept nogil
