"""RPC times: how long requests took until their answer was queued (rocketmq_rpc_latency).

One row of counts for each pair of request and response code, and separate rows for pulls that were
held. Answers of one turn that took equally long are counted by one addition. Answers of the control
thread are counted there (rmq/broker/dispatch/response_times.py); a one-way request has no answer,
and so no time.

Example: 200 sends of one turn, taken in and written within the millisecond -> row (310, 0, False),
counts[0] += 200.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from cext.base.histogram_buckets cimport HistogramBuckets

cdef enum:
    RPC_ROWS = 64               # more pairs than there are; further ones would not be counted
    RPC_BOUNDS = 9              # 1, 3, 5, 7, 10, 100, 1000, 2000, 3000 ms

cdef struct RpcRow:
    int32_t request_code
    int32_t response_code
    bint held
    HistogramBuckets histogram

cdef struct RpcTimes:
    int32_t count
    RpcRow rows[RPC_ROWS]       # in the order of their first use, so the common ones come first

cdef void rpc_record(RpcTimes* times, int32_t request_code, int32_t response_code, bint held,
                     int64_t ms, uint64_t answers) noexcept nogil
# {(request code, response code, held): (counts, sum)}
cdef dict rpc_rows(const RpcTimes* times)
