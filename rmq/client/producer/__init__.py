"""Sending: the producer, transactions, requests with replies.

    producer            ProducerImpl, which puts the parts together
    base                ProducerBase, which is all that a part may know of the producer
    transaction         a message and a local transaction, both or neither
    requests            a message whose sender waits for a reply, and the reply
    recall              takes back a message that is delayed to a time

One send

    targets             which queue of which broker a message is sent to
    faults              leaves brokers alone for a while that were slow or failed
    compression         packs large bodies
    synchronous_sends   sends whose caller waits for the result
    hooked_sends        sends with a hook, TLS or tracing

Further tries of an asynchronous send

    attempts            each try goes to another broker, if there is one
    failover_grace      tries that do not count while a broker changes its master
    delayed_retries     tries that wait a moment first
    deferred_completions  calls the callbacks of sends that never got under way
"""
