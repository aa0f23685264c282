"""Name server: which broker has which topic; one asyncio process, a server of its own.

    server              start and stop; its sockets are rmq/serving's
    requests            what is done for each request code
    registration        what a broker says of itself
    route_tables, topic_queues      which brokers live; which topics they have
    route_json          routes as clients read them
    expiry              silent brokers and clients
    notices             brokers of a group hear of a new leader
    kv_config           key-value configuration

Name servers do not talk to each other: brokers register with each.
"""
