"""Log-linear latency histogram (see histogram.pxd for the bucket arithmetic).

It counts and nothing else: percentiles are computed from `counts` (rmq/load/latency.py).

    >>> h = Histogram()
    >>> h.add(1000); numpy.frombuffer(h.counts, numpy.uint64)[506]
    1
"""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from rmq.errors import not_copied

SUB_BUCKET_BITS = SUB_BITS      # for Python: every power of two is cut into 2 ** 7 buckets


cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil


cdef inline uint64_t bucket_of(uint64_t value) noexcept nogil:
    cdef int shift
    if value < (1 << (SUB_BITS + 1)):
        return value
    shift = 63 - __builtin_clzll(value) - SUB_BITS
    return (<uint64_t>shift << SUB_BITS) + (value >> shift)


cdef class Histogram:
    def __cinit__(self):
        self.clear()

    cdef void record(self, int64_t nanoseconds) noexcept nogil:
        cdef int64_t value = nanoseconds
        if value < 0:
            value = 0
        if value >= <int64_t>1 << VALUE_BITS:
            value = (<int64_t>1 << VALUE_BITS) - 1
        self.buckets[bucket_of(<uint64_t>value)] += 1
        if self.total == 0 or value < self.smallest:
            self.smallest = value
        if value > self.largest:
            self.largest = value
        self.total += 1
        self.sum += value

    cdef void record_many(self, int64_t nanoseconds, uint64_t times) noexcept nogil:
        cdef int64_t value = min(max(nanoseconds, <int64_t>0), (<int64_t>1 << VALUE_BITS) - 1)
        if times == 0:
            return
        self.record(value)
        self.buckets[bucket_of(<uint64_t>value)] += times - 1
        self.total += times - 1
        self.sum += <double>value * <double>(times - 1)

    def __reduce__(self):
        raise not_copied(self, "merge() it into another of its process")

    def clear(self):
        """Forgets everything recorded."""
        memset(self.buckets, 0, sizeof(self.buckets))
        self.total = 0
        self.largest = 0
        self.smallest = 0
        self.sum = 0.0

    def add(self, nanoseconds):
        """Records one duration."""
        self.record(nanoseconds)

    def merge(self, Histogram other not None):
        """Adds everything that other holds."""
        cdef uint64_t i
        if other.total == 0:
            return
        for i in range(BUCKETS):
            self.buckets[i] += other.buckets[i]
        if self.total == 0 or other.smallest < self.smallest:
            self.smallest = other.smallest
        if other.largest > self.largest:
            self.largest = other.largest
        self.total += other.total
        self.sum += other.sum

    @property
    def counts(self):
        """The count of each bucket, as the bytes of uint64s in the machine's order."""
        return (<const char*>self.buckets)[:sizeof(self.buckets)]

    @property
    def count(self):
        return self.total

    @property
    def maximum(self):
        return self.largest

    @property
    def minimum(self):
        return self.smallest

    @property
    def total_ns(self):
        return self.sum

    @property
    def mean(self):
        return self.sum / self.total if self.total else 0.0
