"""Store: a broker's files, and the threads beside the reactor. It knows no frames and no sockets.

    log             the commit log: records, segments, marks, flushes, reads
    queues          consume queues
    index           messages by key
    timers          messages that wait for their time

A start, which reads all of them

    recovery            which queue entries count: the table of all cases (where the log ends: log)
    recovery_state      what its steps know
    recovery_start      where dispatch starts, and what queues must hold below it
    recovery_queues     their files, cut or made anew
    known_end           where the log once ended
    deleted_topics      whose messages are passed over
    truncation          a log that is cut back, now or at the next start
"""
