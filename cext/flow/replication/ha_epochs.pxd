"""HA epochs: where in the log each mastership began, for the streams of controlled brokers.

    starts   0        1500     1500     4000
    numbers  1        4        5        7          the log from 1500 to 4000 is of epoch 5; of 4
                                                    there is nothing
A broker that is made master begins an epoch at its log's end; the first epoch also has what is
below its start. The control thread keeps the table on the disk and puts it here (set_epochs).
Numbers and starts never fall from one entry to the next.

Reactor only.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t

cdef enum:
    EPOCHS_MAX = 1024               # a handshake of RocketMQ's masters has room for 1000

cdef struct HAEpochs:
    int32_t count
    int32_t numbers[EPOCHS_MAX]
    int64_t starts[EPOCHS_MAX]


# The index of the epoch that a byte of the log belongs to; -1: none.
cdef inline int32_t epoch_at(const HAEpochs* e, int64_t offset) noexcept nogil:
    cdef int32_t i = e.count - 1
    while i >= 0 and e.starts[i] > offset:
        i -= 1
    return i


# Where the epoch with an index from epoch_at() ends.
cdef inline int64_t epoch_end(const HAEpochs* e, int32_t index) noexcept nogil:
    return e.starts[index + 1] if index + 1 < e.count else INT64_MAX


# The last epoch's number; 0: there is no epoch yet.
cdef inline int32_t last_epoch(const HAEpochs* e) noexcept nogil:
    return e.numbers[e.count - 1] if e.count > 0 else 0
