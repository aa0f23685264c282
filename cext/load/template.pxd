# Template: a frame that was built once in Python and is rendered a million times in C.
#
# A frame differs from its sister in three places only: the opaque, the varying part of the unique
# id(s), and, in a pull, the decimal queue offset, whose length varies and with it up to four
# length fields. Of a signed frame the signature differs, too.
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
    UNIQUE_DIGITS = 12           # hex digits of a unique id that vary
    OPAQUE_DIGITS = 8            # JSON: opaques are 10,000,000 .. 99,999,999: one width
    NUMBER_DIGITS_MAX = 20


cdef struct Template:
    const uint8_t* bytes         # borrowed from the FrameSet's block
    uint32_t length              # bytes up to the end of the header, without the number
    uint32_t split               # where the number goes; 0: takes none
    uint32_t opaque_at           # before insertion of the number
    uint32_t unique_at           # first of UNIQUE_DIGITS; before insertion of the number; 0: none
    uint32_t cell_count
    uint32_t cells[CELLS_MAX]    # big-endian u32 that grow by the number's digits; before split
    const uint8_t* signed_bytes  # what is signed but the number and the body; NULL: nothing is
    uint32_t signed_length
    uint32_t signed_split        # where the number goes in it
    uint32_t signature_at        # before insertion of the number


# Built by Python, read only afterwards: any thread; one with a signer: one loop's.
cdef class FrameSet:
    cdef bytes block             # the templates' bytes; owned
    cdef bytes body_bytes        # owned
    cdef list signed             # keeps signed_bytes alive
    cdef Signer signer           # None: nothing is signed
    cdef Template* templates     # owned
    cdef readonly uint32_t count
    cdef const uint8_t* body     # the body every frame of the set ends with
    cdef uint32_t body_length
    cdef uint32_t* body_unique_at    # owned; offsets in body
    cdef uint32_t body_unique_count
    cdef bint binary             # opaque is four bytes big-endian, not eight digits
    cdef readonly uint32_t max_bytes  # no frame of the set is longer
    cdef readonly uint32_t messages  # in one frame: 1, or the batch size

    # Of a frame that is rendered but for its signature, which is written where `signature` points.
    cdef void sign(self, const Template* template, const uint8_t* number, uint32_t digits,
                   const uint8_t* body, uint8_t* signature) noexcept nogil
    # Writes frame `index` to out (max_bytes must fit) and returns its length.
    cdef uint32_t render(self, uint32_t index, int32_t opaque, uint64_t unique, int64_t number,
                         uint8_t* out) noexcept nogil
