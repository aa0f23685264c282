# Reply: where an answer ends, and the three things a load generator wants of it.
#
# JSON headers are not parsed but searched: `"opaque":` cannot stand inside a JSON string (its
# quotes would be escaped), and a member of extFields has a quoted value, so `"opaque":` + digit
# is the member we want. Binary headers have both numbers at fixed places.
#
# Example: {"code":0,"extFields":{"queueId":"3"},"flag":1,"opaque":10000007} -> code 0, opaque
# 10000007.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef struct Reply:
    uint32_t total               # bytes of the frame with its 4 length bytes
    int32_t code
    int32_t opaque
    int32_t flag_response        # 0: the broker asks us something (a notice), it is no answer
    const uint8_t* header        # borrowed from the input
    uint32_t header_bytes
    int32_t binary
    const uint8_t* body          # borrowed from the input
    uint32_t body_bytes


# Where the last answer had its members, in bytes before the end of its header: answers of one
# broker differ in the digits of their fields, which stand before, so the next one has them at the
# same place. Zero: not known yet.
cdef struct ReplyHints:
    uint32_t opaque_back
    uint32_t flag_back


# OK and *out filled | NOT_READY: more bytes needed | TOO_LARGE: frame longer than frame_max |
# MALFORMED.
cdef int read_reply(const uint8_t* bytes, uint64_t available, uint32_t frame_max,
                    ReplyHints* hints, Reply* out) noexcept nogil

# The same as soon as the header is here: `body` may not be, or not all of it.
cdef int read_reply_head(const uint8_t* bytes, uint64_t available, uint32_t frame_max,
                         ReplyHints* hints, Reply* out) noexcept nogil

# The extension field `name` as a number: OK | MISSING_FIELD | MALFORMED.
cdef int reply_number(const Reply* reply, const char* name, uint32_t name_bytes,
                      int64_t* out) noexcept nogil

# The field `name` of a JSON header as it stands between its quotes: OK | MISSING_FIELD | MALFORMED
# (also: it is escaped, or the header is binary).
cdef int reply_text(const Reply* reply, const char* name, uint32_t name_bytes,
                    const uint8_t** out, uint32_t* length) noexcept nogil
