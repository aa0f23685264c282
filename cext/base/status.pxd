# Status: what every nogil function of cext returns; one function turns it into an exception.
#
# A status says what kind of thing happened and nothing else. An errno is returned beside it in a
# separate int, never inside it. A function that returns a count returns >= 0 for the count and < 0
# for a status; OK is 0.
#
# Example:
#     cdef int status = log.write_out()
#     if status != Status.OK: ...            # handled where it is known what it means
#     raise_status(status, "commit log")     # outermost def only, with the GIL

cpdef enum Status:
    OK = 0
    NOT_READY = -1       # try again later: more bytes, or the next segment, will come
    POOL_EMPTY = -2      # a fixed pool has nothing left: refuse, count, never malloc
    RING_FULL = -3       # the consumer of a ring, or the write-out of the tail, is behind
    POISONED = -4        # an earlier write or sync failed; stays so until reopened
    IO_ERROR = -5        # a system call failed; its errno is beside the status
    NO_SPACE = -6        # ENOSPC or EDQUOT
    CORRUPT = -7         # bytes of a file that cannot be right
    ABSENT = -8          # exists, but not in memory: ask a disk reader
    TOO_LARGE = -9       # over a limit
    MALFORMED = -10      # bytes from the wire that are not what the protocol allows
    MISSING_FIELD = -11  # a required header field is not there
    NOT_FOUND = -12      # no such thing
    CLOSED = -13         # closed or stopping

# Any thread, with the GIL. Raises when status is < 0; otherwise returns and does nothing.
cpdef int raise_status(int status, str detail=*) except -1
