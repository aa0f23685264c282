"""Requests: the handlers by area, and the table of request codes.

    handlers            the one table: request code -> handler
    sends, recalls, replies, transactions, pulls, pops, consumer_retries
                        what the reactor could not do by itself
    logic_queues        offsets and pulls of static topics, also from other brokers
    offsets, offset_resets, locks, assignments    what consumers ask
    heartbeats, members, consumer_diagnosis       who is connected, and how they are
    topics, groups, broker_config, maintenance    administration
    accounts            users and what they may do
    changes             requests that change tables, at a broker with slaves or at a slave
    replicas            what slaves ask
    queries             queues and messages are read

Handlers of status (28, 202, 208, ..) are in rmq.broker.status.
"""
