"""Clients: who is connected, in which groups, with which subscriptions and filters.

    connections         every connection: number, address, what is known of it
    client              one of them, as of its last heartbeat
    client_table        what the next two have in common
    producers           producer groups; where checks and replies find their producer
    consumers           consumer groups, their members and subscriptions
    subscription        one group's subscription of one topic
    subscription_filters    from its words to what the reactor filters by
    filter_processes    the owner's filter functions, a process each
    broker_to_client    requests of the broker to its clients, and their replies

Who is connected is in no file: after a restart clients come by themselves.
"""
