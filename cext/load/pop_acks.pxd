# Pop acks: what to acknowledge of a pop's reply: the messages of each check point, from two texts.
#
# Example: startOffsetInfo "0 1 100;1 0 7", msgOffsetInfo "0 1 100,103;1 0 7": (retry '0', queue 1,
# start 100, bits 0 and 3) and (retry '1', queue 0, start 7, bit 0).

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    ACK_BITS_MAX = 1024          # a check point's offsets lie within so many
    ACK_BIT_BYTES = 128
    ACK_BITS_TEXT = 176          # base64 of the bits, and a zero


cdef struct AckRow:
    uint8_t retry                # '0': the topic; '1' or '2': the group's retry topic
    int64_t queue_id
    int64_t start
    uint32_t count               # messages
    uint32_t bit_bytes
    uint8_t bits[ACK_BIT_BYTES]


cdef struct AckTexts:
    const uint8_t* starts        # borrowed from the reply
    uint32_t starts_length
    const uint8_t* offsets
    uint32_t offsets_length
    uint32_t at                  # in offsets


# Reads the next check point: OK | NOT_FOUND at the end | MALFORMED.
cdef int next_ack_row(AckTexts* texts, AckRow* out) noexcept nogil
# Writes base64 of the row's bits, and a zero.
cdef void ack_bits_text(const AckRow* row, char* out) noexcept nogil
