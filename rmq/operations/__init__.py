"""Operations: what an operator looks at and changes, for the command line and the web console.

    broker_samples      what every broker does, between two polls
    replica_sets        which replicas copy which master
    topic_changes       what a change of a topic would do
    group_changes       a group at each broker, made, changed, made like another one
    offset_moves        where a group goes on, before it is moved
    dead_letters        messages that a group gave up, gone through and sent again
    message_copy        a stored message made new, to be sent again
    message_pages       a page of messages
    message_facts       one message with all there is to it
    trace_rows          what clients traced of a message, in words
    server_settings     settings of servers that run
    account_answers     what each server that keeps accounts answers
    account_lists       users and what they may do, and in what servers differ
    audit_log           which user asked servers for what, and whether it was allowed
    json_lines          a message as a JSON object
    askers              whether servers know the account that asks
    client_keywords     the process's account and TLS settings, for a client with an engine
    times, starts       moments, durations and places in queues, as people write them
    texts               moments, counts and bodies, as people read them

All modules ask with the blocking client (rmq/client/blocking) and print nothing.
"""
