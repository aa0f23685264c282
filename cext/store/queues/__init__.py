"""Queues: the consume queues.

    consume_queue       entries of one queue, and its tail in memory
    queue_table         all queues: found and read
    queue_persistence   how their entries get into files, and how far that is
    queue_store         appended to; mended where a file is damaged
    queue_writer        the thread that writes their files
    queue_files, queue_scan     files and descriptors; searches in them
    queue_ends          where every queue ends, for the next start
    queue_repair        the thread that makes lost entries again
    tags_code, outside_address  what an entry says for filters

All of it can be made again from the log.
"""
