"""Sending: the producer, transactions, requests with replies.

    producer            ProducerImpl, which puts the parts together
    base                what each part may know of it
    transaction         a message and a local transaction, both or neither
    requests            a message whose sender waits for an answer, and the answer
    recall              a message that waits for its time is taken back

One send

    targets             to which queue of which broker
    faults              brokers that were slow or failed are left alone for a while
    compression         large bodies are packed
    synchronous_sends   whose caller waits
    hooked_sends        with a hook, TLS or tracing

Tries of asynchronous ones

    attempts            each on another broker, where there is one
    failover_grace      tries that do not count while a broker changes its master
    delayed_retries     those that wait a moment first
    deferred_completions  ends of what never got under way, told by a thread of the client
"""
