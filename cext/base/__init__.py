"""Base: statuses, invariants, clocks and system calls that all compiled folders share.

    status              what every nogil function returns; one function turns it into an exception
    check               invariants: a broken one ends the process
    state, watermark    checked changes: from state to state, of a mark that never goes back
    thread_owner        which thread something belongs to, in debug builds
    atomics             loads and stores with an order between threads
    native_thread       threads that never hold the GIL
    sysio               system calls on files and eventfds
    clock               wall, monotonic and boot time; tests can drive it
    byteorder, decimal, checksum, prefetch
    latency, histogram_buckets      durations and counts for /metrics
    page_cache          how much of a file the kernel has in memory, for operators

Every other compiled folder builds on this one, and it imports from none of them.
"""
