"""Histogram buckets: counts between given bounds, for the histograms whose bounds are RocketMQ's.

A value counts in the first bucket whose bound is not below it; a value above all bounds counts in
the last bucket.

Example: bounds 1, 3, 5; values 0, 3, 9 -> counts [1, 1, 0, 1], sum 12.
"""
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    HISTOGRAM_BUCKETS_MAX = 10      # bounds and one more

cdef struct HistogramBuckets:
    uint64_t counts[HISTOGRAM_BUCKETS_MAX]
    uint64_t sum                    # of all values recorded, in their unit

# Records `times` events of this value. `bounds` are `count` numbers in rising order.
cdef inline void histogram_record(HistogramBuckets* buckets, const int64_t* bounds, int count,
                                  int64_t value, uint64_t times) noexcept nogil:
    cdef int i = 0
    if value < 0:
        value = 0
    while i < count and value > bounds[i]:
        i += 1
    buckets.counts[i] += times
    buckets.sum += <uint64_t> value * times
