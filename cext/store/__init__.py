"""Store: a broker's files, and the threads beside the reactor. It knows no frames and no sockets.

    log             the commit log: records, segments, marks, flushes, reads
    queues          consume queues
    index           messages by key
    timers          messages that wait for their time

A start reads all of these files:

    recovery            which queue entries count: the table of all cases (log says where it ends)
    recovery_state      what the steps of a recovery know
    recovery_start      where dispatch starts, and what queues must hold below that offset
    recovery_queues     queue files, cut or made anew
    known_end           where the log once ended
    deleted_topics      topics whose messages recovery passes over
    truncation          cuts a log back, now or at the next start
"""
