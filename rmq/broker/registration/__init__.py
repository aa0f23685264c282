"""Registration: this broker at its name servers, and the routes they give.

    registration        keeps the broker and its topics known at all name servers
    registration_body   the table of topics as request 103 carries it, as JSON or compressed
    routes              a topic's queues on all brokers, for assignments (400)
    route_lookup        a topic's route, asked of one name server after the other
    peer_brokers        requests to the other brokers of a static topic

A broker talks to each of its name servers by itself, apart from the others.
"""
