# Tally: failures counted by response code, in a table of a few entries that is searched linearly.
#
# Example: 1000 answers with code 2 (SYSTEM_BUSY) and one broken connection with 64 open requests
# give {2: 1000, -1: 64}.

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef enum:
    TALLY_CODES = 32             # different codes counted; further ones are OTHER
    CODE_CONNECTION = -1         # the connection broke before the answer
    CODE_UNMATCHED = -2          # an answer to no open request
    CODE_CORRUPT = -3            # a record that cannot be right
    CODE_OTHER = -4


cdef struct Tally:
    uint64_t counts[TALLY_CODES]
    int32_t codes[TALLY_CODES]
    int32_t used


cdef inline void tally_add(Tally* tally, int32_t code, uint64_t count) noexcept nogil:
    cdef int32_t i, wanted = code
    if tally.used == TALLY_CODES - 1:
        for i in range(tally.used):
            if tally.codes[i] == wanted:
                break
        else:
            wanted = CODE_OTHER
    for i in range(tally.used):
        if tally.codes[i] == wanted:
            tally.counts[i] += count
            return
    tally.codes[tally.used] = wanted
    tally.counts[tally.used] = count
    tally.used += 1
