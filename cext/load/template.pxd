# Template: a frame that is built once in Python and rendered a million times in C.
#
# Frames of one template differ in three places only: the opaque, the varying part of the unique
# id(s), and, in a pull, the decimal queue offset, whose length varies, and with it up to four
# length fields. In a signed frame the signature differs, too.
#
#   4 length | 4 type + header length | header ........ | body
#      ^cell      ^cell                   ^opaque ^unique   ^unique (one per message of a batch)
#                                         ^split: the decimal number is inserted here
#
# Example, JSON: ..."queueOffset":"" with split at the second quote; number 1234567 inserts 7 bytes
# and adds 7 to both length fields. Binary: adds 7 to the length of the value and of all fields too.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.load.signer cimport Signer

cdef enum:
    CELLS_MAX = 4
    UNIQUE_DIGITS = 12           # varying hex digits of a unique id
    OPAQUE_DIGITS = 8            # JSON: opaques from 10,000,000 to 99,999,999 have one width
    NUMBER_DIGITS_MAX = 20


cdef struct Template:
    const uint8_t* bytes         # borrowed from the FrameSet's block
    uint32_t length              # bytes up to the end of the header, without the number
    uint32_t split               # where the number goes; 0: there is no number
    uint32_t opaque_at           # its place before the number is inserted
    uint32_t unique_at           # of UNIQUE_DIGITS, before the number is inserted; 0: none
    uint32_t cell_count
    uint32_t cells[CELLS_MAX]    # big-endian u32 that grow by the digits; before split
    const uint8_t* signed_bytes  # signed parts but number and body; NULL: not signed
    uint32_t signed_length
    uint32_t signed_split        # where the number goes in signed_bytes
    uint32_t signature_at        # its place before the number is inserted


# Python builds it; afterwards it is only read, by any thread. With a signer it belongs to one loop.
cdef class FrameSet:
    cdef bytes block             # the templates' bytes; owned
    cdef bytes body_bytes        # owned
    cdef list signed             # keeps signed_bytes alive
    cdef Signer signer           # None: nothing is signed
    cdef Template* templates     # owned
    cdef readonly uint32_t count
    cdef const uint8_t* body     # the body that every frame of the set ends with
    cdef uint32_t body_length
    cdef uint32_t* body_unique_at    # owned; offsets in body
    cdef uint32_t body_unique_count
    cdef bint binary             # opaque is four bytes big-endian, not eight digits
    cdef readonly uint32_t max_bytes  # no frame of the set is longer
    cdef readonly uint32_t messages  # in one frame: 1, or the batch size

    # Signs a frame that is otherwise rendered; writes the signature to where `signature` points.
    cdef void sign(self, const Template* template, const uint8_t* number, uint32_t digits,
                   const uint8_t* body, uint8_t* signature) noexcept nogil
    # Writes frame `index` to `out` (with room for max_bytes) and returns its length.
    cdef uint32_t render(self, uint32_t index, int32_t opaque, uint64_t unique, int64_t number,
                         uint8_t* out) noexcept nogil
