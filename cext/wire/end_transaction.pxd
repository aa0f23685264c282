"""End transaction (37 END_TRANSACTION): a producer says what became of its half message.

Example: producerGroup=p, tranStateTableOffset=17, commitLogOffset=40960, commitOrRollback=8,
fromTransactionCheck=false, msgId=..: the half message at log offset 40960, entry 17 of the half
queue, goes to its topic.

Any thread, no state.
"""
from libc.stdint cimport int32_t, int64_t

from cext.wire.header cimport Header
from cext.wire.text cimport Text

cdef struct EndTransaction:
    Text producer_group
    Text topic                      # absent with clients before 5.0
    int64_t queue_offset            # tranStateTableOffset: entry in the half queue
    int64_t log_offset              # commitLogOffset: where the half record is
    int32_t decision                # commitOrRollback (codes.pxd); any other number: unknown
    bint from_check                 # fromTransactionCheck: the answer to a check back
    const char* bad_field           # the field because of which the status is not OK

# OK | MISSING_FIELD | MALFORMED, with bad_field.
cdef int read_end_transaction(const Header* header, EndTransaction* out) noexcept nogil
