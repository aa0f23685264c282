"""Base: files, directories, clocks and logs that everything in Python builds on.

    log_file            lines that several processes append to one file
    audit_file          the audit log's lines in a file of their own
    atomic_file         replaces a small file as a whole
    build               which version and commit of rmq this is
    core_files          keeps processes that have passwords from leaving core files
    durable_directory   directories whose entries survive a power cut
    first_segment       where a commit log that holds nothing begins
    unfinished_restore  detects what an interrupted `rmq store restore` has left
    json_file           one config file, its .bak and its checksum
    journal_file        records appended to one file, each whole or not there
    clock               wall and monotonic time, which tests can drive
    waits               waits of threads, by that clock
    patience            a word to whoever waits for a server that is silent
    deadline            waiting with a limit
    transport_end       ends asyncio's transports at once
    background_tasks    tasks of an event loop that nobody waits for
    networks            addresses and blocks of them
    server_address      host and port of a text
    signatures          what help() shows of functions that take parameters as keywords
    rate_limited_log    at most one log line per key and interval

Of this project it imports only errors and rmq.format, and of cext the clock and the build.
"""
