"""Counts between given bounds: the histograms whose bounds are RocketMQ's.

A value counts in the first step whose bound is not below it, or in the last one, above all bounds.

Example: bounds 1, 3, 5; values 0, 3, 9 -> counts [1, 1, 0, 1], sum 12.
"""
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    STEPS_MAX = 10              # bounds and one more

cdef struct Steps:
    uint64_t counts[STEPS_MAX]
    uint64_t sum                # of all values recorded, in their unit

# `times` events of this value; `count` bounds in rising order.
cdef inline void steps_record(Steps* steps, const int64_t* bounds, int count, int64_t value,
                              uint64_t times) noexcept nogil:
    cdef int i = 0
    if value < 0:
        value = 0
    while i < count and value > bounds[i]:
        i += 1
    steps.counts[i] += times
    steps.sum += <uint64_t> value * times
