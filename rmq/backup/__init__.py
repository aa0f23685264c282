"""Backup: a consistent copy of a store, made while its broker runs; for `rmq store backup|restore`.

    backup          one run: state first, then the log, then the manifest
    manifest        rmqBackup.json: the files of the copy, with checksums
    state_copy      configuration, queue ends, progress of timers, as of one moment
    log_copy        segments of the log: new ones, and what was added to the last one
    segment_scan    how far a segment holds whole records
    byte_copy       ranges of files copied by the kernel, and their checksums
    copy_lock       admits one writer of a copy at a time
    verification    checks a copy against its manifest, and its records by their checksums
    restore         makes a store from a copy

It reads stores with rmq/offline and, like rmq/offline, needs no compiled module.
"""
