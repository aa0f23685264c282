"""The load generator: loops without the GIL that speak RocketMQ to any broker.

    event_loop  what the loops have in common: wait, receive, hand over answers, send
    resting_loop  one whose places rest when they found nothing: of consumer and popper
    producer    sends, closed (window) or open (rate)
    consumer    pulls, one open pull per queue
    popper      pops, each with its batch ack
    pop_acks    the acks of one pop's reply
    pingpong    bare loopback echo, the floor of every latency
    peer        one connection: buffers, open requests
    template    frames rendered from templates: opaque, unique ids, an offset, a signature change
    signer      signatures of requests whose fields change
    records     walk over the concatenated records of a pull
    histogram   log-linear latency histogram
    tally       failures counted by response code
    epoll       readiness with timeouts in nanoseconds

cext/load sees cext/base, and of cext/wire the protocol's numbers and the clients' reader of
answers. rmq/load builds the templates and prints the results.
"""
