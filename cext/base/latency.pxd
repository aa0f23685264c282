"""Latency: how long something took, as counts in fixed buckets. Recording is one addition.

Values are whole microseconds. Each value below 8 has its own bucket. Above that, every power of two
is cut into 4 buckets of equal width, so a bucket's upper end is at most 25 % above any value in it.
A time beyond the end of the last bucket (67 s) counts in that bucket. rmq/observe/latency.py turns
counts into percentiles.

    value    bucket
    5 us     5
    1000 us  top bit 9, shift 7: (7 << 2) + (1000 >> 7) = 35, which holds 896 .. 1023

One thread records; another may read the counts at any time (each is exact by itself).
"""
from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cdef enum:
    LATENCY_BITS = 26           # values below 2 ** 26 us
    LATENCY_BUCKETS = 100       # ((LATENCY_BITS - 3) << 2) + 8

cdef struct Latency:
    uint64_t counts[LATENCY_BUCKETS]
    uint64_t sum_us             # of all values recorded

# Records that `times` events took `us` each.
cdef inline void latency_record(Latency* latency, int64_t us, uint64_t times) noexcept nogil:
    cdef uint64_t value = <uint64_t> us if us > 0 else 0
    cdef int shift
    latency.sum_us += value * times
    if value >= <uint64_t> 1 << LATENCY_BITS:
        value = (<uint64_t> 1 << LATENCY_BITS) - 1
    if value >= 8:
        shift = 61 - __builtin_clzll(value)
        value = (<uint64_t> shift << 2) + (value >> shift)
    latency.counts[value] += times
