"""Store: how the control side reads the log, the queues and the key index.

    queue_reader        a queue's entries, from the core or from the files
    key_index           queries by key
    durability          waits until what control stored is as safe as flushDiskType says
    damage_report, memory_report    what a start found, as log lines

Only the reactor writes the log and the queues.
"""
