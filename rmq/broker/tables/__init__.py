"""Tables: what the broker knows and saves, each with its file in config/.

Topics

    topics              the table
    topic_config        one topic and its JSON
    registered_topics   the topics as reactor and name servers know them
    deleted_topics      where the log was when each was deleted
    queue_mapping, queue_mappings    the logical queues of a static topic; of all of them

Groups and consumers

    groups, retry_policy    the table; after how long a failed message comes again
    offsets             consumer offsets, kept by the reactor, written from here
    offset_entries      blocks of them, as they go between the reactor and here
    locks               queues of orderly consumers
    request_modes       which groups pull and which pop
    pop_orders          batches popped in order

Files and versions

    metadata_journal    changes of topics, groups and offsets, between two writes of their JSON
    config_saver        a table's changes to its file, off the loop
    data_version        how others see that a table changed
    stamps              versions of a table's items among shards
    attributes          attributes of topics and groups

Delay levels: message_delay_level (how long each is), delay_levels (how far each is delivered).
"""
