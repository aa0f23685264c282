"""System: the machine a broker runs on.

    kernel_files        what /proc and /sys say
    topology            cores and NUMA nodes
    affinity            binds threads to cores and memory to nodes
    threads             what one thread of a process does just now
    memory_limit        how much memory this process may use
    disk_use            how full a file system is
    descriptors         how many files and clients this process may have
    checks              what `rmq check` compares
    child               a process that ends with this one
    held_signals        Ctrl-C is handled after a block instead of within it

All is read from /proc and /sys, and set by system calls for this process alone.
"""
