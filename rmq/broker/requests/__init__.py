"""Requests: the handlers by area, and the table of request codes.

    handlers            the one table: request code -> handler
    sends, recalls, replies, transactions, pulls, pops, consumer_retries
                        requests that the reactor could not serve by itself
    logic_queues        offsets and pulls of static topics, also from other brokers
    offsets, offset_resets, locks, assignments    what consumers ask for
    heartbeats, members, consumer_diagnosis       who is connected, and the state of each
    topics, groups, broker_config, maintenance    administration
    accounts            users and what they may do
    changes             wraps requests that change tables: at a master with slaves, and at a slave
    replicas            what slaves ask for
    queries             reads of queues and messages

The handlers of status requests (28, 202, 208, ..) are in rmq.broker.status.
"""
