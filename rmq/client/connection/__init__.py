"""Connections, routes, heartbeats and timers: shared by the clients with one client id.

    instance            ClientInstance, which has all the parts below

Requests and connections

    caller              requests to addresses, over the connections of one engine
    request_round       requests for many queues; a broker that is away is dialled once
    tls                 encrypted connections: a thread between the engine's socket and the peer's
    notices             requests of brokers to this client, and connections that were lost
    broker_calls        the requests of brokers to consumers, and the answers

Where requests go

    name_servers        which name servers there are
    host_names          looks up again the addresses of hosts that are known by name
    routes              which queues a topic has, and where their brokers are: values
    route_table         the newest routes, and questions to them
    replicas            which broker of a name is asked, for which purpose
    namespaces          names on the wire and names that the user knows

Time and trouble

    heartbeats          tell brokers which producers and consumers there are
    timers              calls functions later, or again and again
    workers             a few threads, and the tasks that wait for them
    repeated_warnings   trouble that lasts is one warning
    read_warnings       the same for reads: why a consumer gets nothing
"""
