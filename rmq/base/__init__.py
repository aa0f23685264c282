"""Base: files, directories, clocks and logs that everything in Python builds on.

    atomic_file         a small file is replaced whole
    durable_directory   directories whose entries survive a power cut
    json_file           one config file, its .bak and its checksum
    journal_file        records appended to one file, each whole or not there
    clock               wall and monotonic time, which tests can drive
    deadline            waiting with a limit
    rate_limited_log    at most one line a key and interval

Of ours it imports errors, rmq.format and the clock of cext alone.
"""
