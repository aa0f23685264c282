"""Push consumer: pulls by itself and calls a listener with the messages.

    consumer            PushConsumerImpl, which puts the parts together

Which queues it reads

    rebalance           the queues of this member, and how they pass from one member to another
    queue_locks         locks at brokers: only the holder of a queue's lock consumes it in order
    missing_topics      retry topics that no name server knows yet

How messages come

    pulls               pulls ahead for its queues
    process_queue       one of these queues: the messages pulled and not consumed yet
    pops                pops instead of pulls, where brokers share out the queues and ask for it
    pop_queue           a queue that is popped from: the number of messages not acknowledged

How the listener is called

    concurrent_service  in any order
    orderly_service     for one batch of a queue at a time, in the queue's order
    pop_service         with popped messages
    listener_call       one call, with its log line, trace and statistics
    send_back           sends messages that failed to the retry topic, at last to the dead letters
    consume_stats       how fast messages are pulled and consumed
"""
