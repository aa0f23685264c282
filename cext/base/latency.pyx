"""Durations as counts in fixed buckets. See latency.pxd; this file only lets Python look at it.

    >>> counts_for_tests([5, 1000, 1000])       # {bucket: count}, sum
    ({5: 1, 35: 2}, 2005)
"""
from libc.string cimport memset


def counts_for_tests(values):
    cdef Latency latency
    cdef int i
    memset(&latency, 0, sizeof(latency))
    for us in values:
        latency_record(&latency, us, 1)
    return ({i: latency.counts[i] for i in range(LATENCY_BUCKETS) if latency.counts[i]},
            latency.sum_us)
