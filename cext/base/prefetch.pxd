# Memory asked for ahead of its use: what lies next is fetched while this is worked on.
#
# A record is a few dozen cache lines, of which the first are waited for one after the other: only
# when they are here is known where the next ones are. The processor looks ahead by itself within a
# page and a run of lines, not over a record's end. Any address will do; a wrong one costs nothing
# but the memory's time.
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
    """
    # Reads nothing: the first 1536 of `bytes` at `at` are on their way to the cache.
    void prefetch "rmq_prefetch_bytes" (const void* at, uint64_t bytes) noexcept nogil
