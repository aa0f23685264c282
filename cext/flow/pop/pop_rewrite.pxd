"""Pop rewrite: a message of a retry topic as clients see it: of its own topic, with its POP_CK.

A client finds a message's check point by topic and queue. Those of the retry topic would be
mistaken for the topic's, so each such message carries the text itself (extra info,
pop_request.pxd).

Reactor only.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.pop.pop_service cimport PopService
from cext.flow.tables.topic_table cimport Topic

cdef enum:
    REWRITE_ADDS_MAX = 800      # bytes: a longer topic, POP_CK with a broker name of 256

# Writes the extra info of the record at `record`, with a zero at the end.
cdef void extra_info_text(PopService s, char* out, uint32_t capacity, int64_t start_offset,
                          int64_t pop_ms, int64_t invisible_ms, int32_t revive_queue, int32_t flag,
                          const uint8_t* record) noexcept nogil
# Writes the record anew and returns its size, at most `size` + REWRITE_ADDS_MAX. A record that is
# damaged, or whose properties are full, is copied unchanged.
cdef uint32_t rewrite_record(const uint8_t* at, uint32_t size, const Topic* topic,
                             const char* extra_info, uint8_t* out) noexcept nogil
