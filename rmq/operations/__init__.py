"""Operations: what an operator looks at and changes, for the command line and the web console.

    broker_samples      of every broker what it does, in an interval
    replica_sets        who copies whom
    topic_changes       what a change of a topic would do
    group_changes       a group at each broker, made, changed, made like another one
    offset_moves        where a group goes on, before it is moved
    dead_letters        messages that a group gave up, gone through and sent again
    message_copy        a stored message made new, to be sent again
    browsing            a page of messages
    message_facts       one message with all there is to it
    trace_rows          what clients traced of it, in words
    server_settings     settings of servers that run
    account_answers     what each server that keeps accounts answers
    account_lists       users and what they may do, and in what servers differ
    audit_log           who asked them for what, and whether he was let in
    json_lines          a message as a JSON object
    askers              whether servers know who asks
    client_keywords     for a client with an engine, as whom the process asks
    times, starts       moments, durations and places in queues, as people write them
    texts               moments, counts and bodies, as people read them

All of it asks by the blocking client (rmq/client/blocking) and prints nothing.
"""
