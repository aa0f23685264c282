"""Store: a broker's files, and the threads beside the reactor. It knows no frames and no sockets.

The commit log

    record, record_crc  one message in the log; its checksums
    commit_log          segments in a row and the tail in memory: reserve, write, the marks
    segment, segment_map    one file; old files mapped for reading
    log_link            what the log's threads share: watermarks, poison
    flusher, committer, preparer    threads: fdatasync; the store pool's writes; the next segment
    disk_reader         threads that read what is not in memory
    raw_append          bytes of another log, for replicas
    log_scan, log_tail, log_window, log_progress    reading the log: at a start, behind the reactor

Consume queues

    consume_queue       units of one queue, and its tail in memory
    queue_table, queue_store    all queues: found and read; appended to and persisted
    queue_writer        the thread that writes their files
    queue_files, queue_scan     files and descriptors; searches in them
    queue_ends          where every queue ends, for the next start
    queue_repair        the thread that makes lost units again
    tags_code, outside_address  what a unit says for filters

Key index: index_key (what is hashed), index_file (one file), index_store (all of them), indexer
(the thread that fills it and answers queries).

Timed messages: timer_heap (in memory), timer_run (a sorted file), timer_keeper (the thread),
timer_checkpoint, timer_position (how far), timer_probe (for tests).

A start: recovery (the table of all cases), checkpoint (what can be believed), deleted_topics;
truncation (a log that is cut back, now or at the next start).
"""
