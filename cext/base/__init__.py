"""Base: statuses, invariants, clocks, system calls: what the compiled folders have in common.

    status              what every nogil function returns; its one way to an exception
    check               invariants: a broken one ends the process
    state, watermark    moves that are checked: of a state, of a mark that never goes back
    thread_owner        which thread something belongs to, in debug builds
    atomics             loads and stores with an order between threads
    native_thread       threads that never hold the GIL
    sysio               system calls on files and eventfds
    clock               wall, monotonic and boot time; tests can drive it
    byteorder, decimal, checksum, prefetch
    latency, histogram_buckets      durations and counts for /metrics
    page_cache          how much of a file the kernel has in memory, for operators

Every other compiled folder builds on it; it sees none of them.
"""
