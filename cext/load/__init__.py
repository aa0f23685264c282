"""The load generator: loops without the GIL that speak RocketMQ to any broker.

    event_loop  the part that all loops share: wait, receive, hand over answers, send
    resting_loop  for consumer and popper: places that found nothing rest before they ask again
    producer    sends, closed (window) or open (rate)
    consumer    pulls, one open pull per queue
    popper      pops, each with its batch ack
    pop_acks    the acks for the reply of one pop
    pingpong    bare loopback echo, the floor of every latency
    peer        one connection: buffers, open requests
    template    frames rendered from templates: only opaque, unique ids, offset, signature change
    signer      signatures of requests whose fields change
    records     walk over the concatenated records of a pull
    histogram   log-linear latency histogram
    tally       failures counted by response code
    epoll       readiness with timeouts in nanoseconds

cext/load uses cext/base, and of cext/wire the protocol's numbers and the clients' reader of
answers. rmq/load builds the templates and prints the results.
"""
