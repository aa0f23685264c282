"""Base probe: functions of cext/base that Python cannot reach otherwise, called one at a time.

    wall_ms()                               1763726400123
    latency_counts([5, 1000, 1000])         ({5: 1, 35: 2}, 2005): {bucket: count}, sum
    write_all(fd, b"hello", 7)              (Status.OK, 0, 5): status, errno, bytes written
    mincore_pages(fd, 5)                    (Status.OK, 4096): status, bytes in memory
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from cext.base cimport checksum, clock, sysio
from cext.base.latency cimport LATENCY_BUCKETS, Latency, latency_record
from cext.base.page_cache cimport CachedPages, pages_by_mincore

cdef extern from "crc32.h" nogil:
    ctypedef uint32_t (*rmq_crc32_function)(uint32_t, const uint8_t*, size_t) noexcept nogil
    rmq_crc32_function* rmq_crc32_ways
    int rmq_crc32_way_count
    int rmq_wide_parts_in_use()


# ------------------------------------------------------------------- clocks

def wall_ms() -> int:
    return clock.wall_ms()


def boot_ms() -> int:
    return clock.boot_ms()


def monotonic_us() -> int:
    return clock.monotonic_us()


# ------------------------------------------------------------------- durations

def latency_counts(values) -> tuple:
    """({bucket: count}, sum) of these durations in microseconds."""
    cdef Latency latency
    cdef int i
    memset(&latency, 0, sizeof(latency))
    for us in values:
        latency_record(&latency, us, 1)
    return ({i: latency.counts[i] for i in range(LATENCY_BUCKETS) if latency.counts[i]},
            latency.sum_us)


# ------------------------------------------------------------------- checksums

def crc32_of(bytes data not None, uint32_t crc=0) -> int:
    """CRC-32 of data, continuing crc, in the way that this processor uses."""
    return checksum.crc32_update(crc, <const uint8_t*>data, len(data))


def crc32_by_all_ways(bytes data not None) -> list:
    """CRC-32 of data by the tables, and in every other way that this processor can."""
    cdef int way
    return [(~rmq_crc32_ways[way](<uint32_t>0xFFFFFFFF, <const uint8_t*>data, len(data)))
            & 0xFFFFFFFF for way in range(rmq_crc32_way_count)]


def wide_parts_in_use_after(bytes data not None) -> int:
    """Which of the registers' upper halves a checksum leaves in use: 0, or -1 if not known."""
    checksum.crc32(<const uint8_t*>data, len(data))
    return rmq_wide_parts_in_use()


def body_crc_of(bytes data not None) -> int:
    """What a record stores as bodyCRC for this body."""
    return checksum.body_crc(<const uint8_t*>data, len(data))


# ------------------------------------------------------------------- files

def write_all(int fd, bytes data, int64_t offset) -> tuple:
    """(status, errno, bytes written) of write_at."""
    cdef int error = 0
    cdef uint64_t done = 0
    cdef int status = sysio.write_at(fd, data, len(data), offset, &error, &done)
    return status, error, done


def write_with_zeros(int fd, bytes data, uint64_t zeros, int64_t offset) -> tuple:
    """(status, errno, bytes written) of write_with_zeros_at."""
    cdef int error = 0
    cdef uint64_t done = 0
    cdef int status = sysio.write_with_zeros_at(fd, data, len(data), zeros, offset, &error, &done)
    return status, error, done


def allocate(int fd, int64_t size) -> tuple:
    cdef int error = 0
    cdef int status = sysio.allocate(fd, 0, size, &error)
    return status, error


def zero_range(int fd, int64_t offset, int64_t size) -> tuple:
    cdef int error = 0
    cdef int status = sysio.zero_range(fd, offset, size, &error)
    return status, error


def sync_directory(bytes path) -> tuple:
    cdef int error = 0
    cdef int status = sysio.sync_directory(path, &error)
    return status, error


def mincore_pages(int fd, int64_t size) -> tuple:
    """(status, bytes in memory) of a file, in the way of kernels without cachestat."""
    cdef CachedPages pages
    cdef int status
    memset(&pages, 0, sizeof(pages))
    status = pages_by_mincore(fd, size, &pages)
    return status, pages.resident_bytes
