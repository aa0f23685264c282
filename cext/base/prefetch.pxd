# Prefetch: fetches the next bytes into the cache while those before them are worked on.
#
# A record is a few dozen cache lines. The code waits for its first lines one after the other,
# because each says where the next fields are. The processor prefetches by itself within a page and
# a run of lines, but not over a record's end. Any address is allowed: a wrong one costs memory
# bandwidth only.
#
# Example: prefetch(at + record_bytes, record_bytes) before the record at `at` is checked.

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define RMQ_PREFETCH_MAX 1536
    static inline void rmq_prefetch_bytes(const void *at, unsigned long bytes)
    {
        const char *line = (const char *)at;
        const char *end = line + (bytes < RMQ_PREFETCH_MAX ? bytes : RMQ_PREFETCH_MAX);
        for (; line < end; line += 64)
            __builtin_prefetch(line);
    }
    #define rmq_prefetch_to_write(at) __builtin_prefetch(at, 1)
    """
    # Starts to fetch the `bytes` bytes at `at`, at most 1536 of them, into the cache.
    void prefetch "rmq_prefetch_bytes" (const void* at, uint64_t bytes) noexcept nogil
    # The same for the one cache line at `at`, which is about to be written.
    void prefetch_to_write "rmq_prefetch_to_write" (const void* at) noexcept nogil
