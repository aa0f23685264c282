"""Connections, routes, heartbeats and timers: what all clients of a process share.

    instance            what the producers and consumers of one client id share: the parts below

Requests and connections

    caller              requests to addresses, over the connections of one engine
    request_round       requests for many queues; who cannot be reached is dialled once
    tls                 encrypted connections: a thread between the engine's socket and the peer's
    notices             requests of brokers to this client, and connections that were lost
    broker_calls        what brokers ask consumers, and the answers

Where to

    name_servers        which name servers there are
    host_names          the addresses of hosts known by name, looked up again
    routes              which queues a topic has, and where their brokers are: values
    route_table         the newest routes, and what is asked of them
    replicas            which broker of a name is asked, for which purpose
    namespaces          names on the wire and names of the user

By time, and trouble

    heartbeats          producers and consumers, announced to brokers
    timers              things to be done later, or again and again
    workers             a few threads, and the tasks that wait for them
    repeated_warnings   what goes wrong again and again is a warning once
    read_warnings       the same of reads: why a consumer gets nothing
"""
