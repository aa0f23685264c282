"""The Python client, and beside it the blocking client of the command line, tests and tools.

    parameters          what can be set, by RocketMQ's names
    connection          connections, routes, heartbeats and timers, shared by all clients
    producer            sends, transactions, requests with replies
    consumer            what all kinds of consumers share
    push, pull, pop     one kind each
    threaded            producers and consumers as users have them
    allocation          who of a group reads which queue
    administration      topics, groups, offsets and stored messages, for programs
    hooks               what sees every request before it leaves, and every answer
    signatures          what help() shows of functions that take parameters as keywords
    tracer              what became of messages, sent to the trace topic
    blocking            the other client: no threads, no compiled modules

The engine below all but the last is compiled (cext/client).
"""
