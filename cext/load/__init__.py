"""The load generator: loops without the GIL that speak RocketMQ to any broker.

    producer    send loop, closed (window) or open (rate)
    consumer    pull loop, one open pull per queue
    popper      pop loop: pops, and acknowledges what came
    pop_acks    the acks of one pop's reply
    pingpong    bare loopback echo, the floor of every latency
    peer        one connection: buffers, open requests
    template    frames rendered from templates: only opaque, unique ids and an offset change
    reply       answers: frame boundary, code, opaque, one numeric field
    records     walk over the concatenated records of a pull
    histogram   log-linear latency histogram
    tally       failures counted by response code
    epoll       readiness with timeouts in nanoseconds

cext/load sees cext/base and the numbers of the protocol in cext/wire. rmq/load builds the templates
and prints the results.
"""
