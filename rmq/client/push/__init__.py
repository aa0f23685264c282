"""PushConsumerImpl: pulls by itself and calls a listener.

    consumer            the class, which puts the parts together

Which queues

    rebalance           which queues it reads, and how they change hands
    queue_locks         who holds the lock of a queue may consume it in order
    missing_topics      retry topics that no name server knows yet

What comes

    pulls               pulls ahead for its queues
    process_queue       one of them: what was pulled and is not dealt with yet
    pops                pops instead, where brokers share queues out and say so
    pop_queue           what is popped from; what is not acknowledged is counted

The listener

    concurrent_service  calls it in any order
    orderly_service     calls it for one batch of a queue at a time, in the queue's order
    pop_service         calls it with popped messages
    listener_call       one call, as log, trace and statistics hear of it
    send_back           what failed goes to the retry topic, and at last to the dead letters
    consume_stats       how fast it pulls and deals with messages
"""
