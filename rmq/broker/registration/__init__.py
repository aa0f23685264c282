"""Registration: tells name servers of this broker, and asks them for routes.

    registration        keeps the broker and its topics known at all name servers
    registration_body   the table of topics as request 103 carries it, as JSON or compressed
    routes              a topic's queues on all brokers, for assignments (400)
    route_lookup        asks one name server after the other for a topic's route
    peer_brokers        requests to the other brokers of a static topic

A broker talks to each of its name servers separately: one that is slow delays none of the others.
"""
