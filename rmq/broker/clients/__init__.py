"""Clients: who is connected, in which groups, with which subscriptions and filters.

    connections         every connection: number, address, what is known of it
    client              one client, as of its last heartbeat
    client_table        what producers and consumers have in common
    producers           producer groups; where checks and replies find their producer
    consumers           consumer groups, their members and subscriptions
    subscription        one group's subscription of one topic
    subscription_filters    makes the reactor's filter from the words of a subscription
    filter_processes    the owner's filter functions, a process each
    broker_to_client    requests of the broker to its clients, and their replies

No file says who is connected: after a restart the clients connect again by themselves.
"""
