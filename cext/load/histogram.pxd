# Histogram: counts of durations in nanoseconds with a bounded relative error (HDR-like).
#
# Values below 256 have a bucket each; above, every power of two is cut into 128 equal buckets, so a
# reported value is at most 1/128 = 0.8 % above the recorded one. 1 ns .. 2^44 ns (4.9 hours).
#
# Example: 1,000,000 ns has its top bit at 19, shift = 19 - 7 = 12: bucket (12 << 7) + (1000000 >>
# 12) = 1536 + 244 = 1780, which holds 999,424 .. 1,003,519.

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    SUB_BITS = 7
    VALUE_BITS = 44
    BUCKETS = (VALUE_BITS - SUB_BITS + 1) << SUB_BITS


# One thread records, without the GIL. A thread that reads meanwhile may miss the last durations, or
# find one in a bucket that is not in the sum yet.
cdef class Histogram:
    cdef uint64_t buckets[BUCKETS]   # how often each bucket was hit
    cdef uint64_t total              # sum of buckets
    cdef int64_t largest             # ns, exact
    cdef int64_t smallest            # ns, exact; meaningless when total is 0
    cdef double sum                  # ns

    cdef void record(self, int64_t nanoseconds) noexcept nogil
    # Records the same duration `times` times.
    cdef void record_many(self, int64_t nanoseconds, uint64_t times) noexcept nogil
