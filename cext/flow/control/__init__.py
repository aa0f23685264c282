"""Control: what the control thread may call of the reactor, a file for each noun.

    control_side        how a call reaches the reactor: posted, or called and waited for
    connection_calls    frames and connections
    topic_calls, group_calls, offset_calls, queue_calls    tables and queues
    log_calls           messages that control stores or reads
    retention_calls     the log's oldest files, and whether sends are taken
    delay_calls, transaction_calls, pop_calls    progress and tables of these
    replica_calls       raw bytes, truncation, promotion
    ha_calls            slaves and master: their sockets, and how far each is
    auth_calls          users, and whether requests must be signed

What each call promises is in rmq/broker's core seam, a Protocol for each file here.
"""
