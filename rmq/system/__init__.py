"""System: the machine a broker runs on.

    kernel_files        what /proc and /sys say
    topology            cores and NUMA nodes
    affinity            threads and memory bound to them
    threads             what one thread of a process does just now
    memory_limit        how much memory this process may use
    disk_use            how full a file system is
    descriptors         how many files and clients it may have
    checks              what `rmq check` compares
    child               a process that ends with this one
    held_signals        Ctrl-C, behind a block instead of in it

Read from /proc and /sys; set by system calls, of this process alone.
"""
