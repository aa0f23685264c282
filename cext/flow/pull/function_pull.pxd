"""Function pull: one with a filter in Python, the owner's (rmq/broker/clients/filter_processes.py).

The reactor does what it does for every pull: holds it, skips what the SQL92 part of the filter does
not let pass, reads what is not in memory. Only the answer is left to the control thread, which gets
the records and where the client is to go on.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService

# Copies the records to the control thread. False: more waits for it than may; the job is untouched.
cdef bint hand_to_function(PullService s, PullJob* job, int64_t next_offset,
                           const uint8_t** records, const uint32_t* sizes,
                           int32_t count) noexcept nogil
