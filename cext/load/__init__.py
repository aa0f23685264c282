"""The load generator: loops without the GIL that speak RocketMQ to any broker.

    histogram   log-linear latency histogram
    template    frames rendered from templates: only opaque, unique ids and an offset change
    reply       answers: frame boundary, code, opaque, one numeric field
    records     walk over the concatenated records of a pull
    peer        one connection: buffers, open requests
    producer    send loop, closed (window) or open (rate)
    consumer    pull loop, one open pull per queue
    pingpong    bare loopback echo, the floor of every latency

cext/load sees cext/base only. rmq/load builds the templates and prints the results.
"""
