"""Log: the commit log and the threads beside it.

    record, record_crc  one message in the log; its checksums
    commit_log          segments in a row and the tail in memory: reserve, write, the marks
    segment, segment_map    one file; old files mapped for reading
    log_link            what the log's threads share: watermarks, and the first failure (poison)
    flusher, committer, preparer    threads: fdatasync; the store pool's writes; the next segment
    disk_reader         threads that read what is not in memory
    raw_append          bytes of another log, for replicas
    log_scan            at a start: which parts of the log are believed, and where it ends
    log_cursor, log_window, log_progress  threads that read the log behind the reactor
    checkpoint          up to when log, queues and index are on the disk

This folder knows nothing of what is built from the log: queues, index, timers.
"""
