"""Append: from a message to its acknowledgement, at the end of the log.

    appender            the service: log, queues and what waits for them
    message_append      one message becomes one record
    log_copy            bytes of a master's log are added to a slave's
    append_status       why a message became no record
    log_room            what the appender keeps of the room in the log, for the next two
    turn_room           how much one turn may append, asked before a request changes anything
    backpressure        sockets are left unread while the next log segment is missing
    log_turn            the log's part of a turn: sleep, views, one sync for many
    disk_alerts         what is wrong with the disk, for the log and for clients
    recall_handle       the handle of a timed message in its send's reply

After the turn's records are written

    dispatch            from `dispatched` to `written`: each record gets its queue entry
    dispatch_hook       what else is called for a dispatched record
    replay              records that are in no list: dispatched from the log's bytes
    log_marks           how the reactor's marks move, and when one may be set back
    promise             which mark an answer waits for
    ack_queue           requests that wait for a mark, in log order
    acknowledgement     their answers, when the mark has passed

The marks themselves are the log's: cext/store, its log link.
"""
