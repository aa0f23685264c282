"""Name server: knows which broker has which topic; a process of its own, on one asyncio loop.

    server              start and stop; its sockets are rmq/serving's
    requests            what is done for each request code
    registration        what a broker says of itself
    route_tables, topic_queues      which brokers live; which topics they have
    route_json          routes as clients read them
    expiry              removes brokers that are silent and clients that idle
    notices             tells the brokers of a group when the lowest brokerId changes
    kv_config           key-value configuration

Name servers do not talk to each other: brokers register with each.
"""
