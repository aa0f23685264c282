"""Function pull: a pull whose filter is a Python function of the broker's owner.

The function runs in another process (rmq/broker/clients/filter_processes.py). The reactor does what
it does for every pull: it holds it, skips what does not pass the SQL92 part of the filter, and
reads what is not in memory. Only the answer is left to the control thread, which gets the records
and the offset at which the client goes on.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cext.flow.pull.pull_job cimport PullJob
from cext.flow.pull.pull_service cimport PullService

# Copies the records to the control thread. False: too much waits there; the job is untouched.
cdef bint hand_to_function(PullService s, PullJob* job, int64_t next_offset,
                           const uint8_t** records, const uint32_t* sizes,
                           int32_t count) noexcept nogil
