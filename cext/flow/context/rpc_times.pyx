"""How long requests took. See rpc_times.pxd."""
from cext.base.histogram_buckets cimport histogram_record

cdef int64_t[RPC_BOUNDS] BOUNDS_MS = [1, 3, 5, 7, 10, 100, 1000, 2000, 3000]


cdef void rpc_record(RpcTimes* times, int32_t request_code, int32_t response_code, bint held,
                     int64_t ms, uint64_t answers) noexcept nogil:
    cdef RpcRow* row
    cdef int32_t i
    for i in range(times.count):
        row = &times.rows[i]
        if row.request_code == request_code and row.response_code == response_code \
                and row.held == held:
            histogram_record(&row.histogram, BOUNDS_MS, RPC_BOUNDS, ms, answers)
            return
    if times.count == RPC_ROWS:
        return
    row = &times.rows[times.count]
    row.request_code = request_code
    row.response_code = response_code
    row.held = held
    histogram_record(&row.histogram, BOUNDS_MS, RPC_BOUNDS, ms, answers)
    times.count += 1


cdef dict rpc_rows(const RpcTimes* times):
    cdef int32_t i, k
    return {
        (times.rows[i].request_code, times.rows[i].response_code, bool(times.rows[i].held)): (
            [times.rows[i].histogram.counts[k] for k in range(RPC_BOUNDS + 1)],
            times.rows[i].histogram.sum,
        )
        for i in range(times.count)
    }
