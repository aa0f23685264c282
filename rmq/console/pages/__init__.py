"""Pages of the console, one file for each subject: its questions, its changes and its pages.

    overview            the cluster at one moment
    brokers             brokers, shards and replicas
    topics              topics: list, create
    topic               one topic: queues, consumers, producers; update, delete, send
    messages            messages of a topic: browsed, looked up, as they come
    message             one message: body, properties, trace, progress of groups
    groups              consumer groups: list, create
    group               one group: lag, members, a member's running info; move, update, delete
    dead_letters        messages that groups gave up: searched, sent again, exported
    waiting_messages    delayed and timed messages, open transactions
    accounts            users, and what they may do
    audit               who asked brokers for what, and whether it was allowed
    server_settings     settings, and how they differ from defaults and among servers

Each file has ROUTES, path -> endpoint, and CHANGES (rmq/console/change.py); routes.py joins them.
"""
