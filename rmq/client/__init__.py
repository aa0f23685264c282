"""The Python client, and with it the blocking client of the command line, tests and tools.

    parameters          what can be set, by RocketMQ's names
    connection          connections, routes, heartbeats and timers, shared by all clients
    producer            sends, transactions, requests with replies
    consumer            what all kinds of consumers share
    push, pull, pop     one kind of consumer each
    threaded            the classes of producers and consumers that users call
    allocation          which member of a group reads which queue
    administration      topics, groups, offsets and stored messages, for programs
    tracer              records of what became of messages, sent to the trace topic
    blocking            the blocking client: no threads, no compiled modules

All of these but the blocking client run on a compiled engine (cext/client).
"""
