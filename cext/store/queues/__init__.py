"""Queues: the consume queues.

    consume_queue       entries of one queue, and its tail in memory
    queue_table         finds and reads all queues
    queue_persistence   brings their entries into files, and knows how far that has come
    queue_store         appends to queues, and mends damaged files
    queue_writer        the thread that writes their files
    queue_files, queue_scan     files and descriptors; searches in them
    queue_ends          where every queue ends, for the next start
    queue_repair        the thread that makes lost entries again
    tags_code, ext_address      what an entry says for filters

All queues can be made again from the log.
"""
