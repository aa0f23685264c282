"""Backup: a consistent copy of a store, made while its broker runs; for `rmq store backup|restore`.

    backup          one run: state first, then the log, then the manifest
    manifest        rmqBackup.json: what the copy is made of, with checksums
    state_copy      configuration, queue ends, progress of timers, as of one moment
    log_copy        segments of the log: new ones, and what the last one has got
    segment_scan    how far a segment holds whole records
    byte_copy       ranges of files copied by the kernel, and their checksums
    copy_lock       one writer of a copy at a time
    verification    a copy against its manifest, and its records against themselves
    restore         a store made of a copy

Beside rmq/offline, by which it reads; like that it needs no compiled module.
"""
