"""Tables: what the broker knows and saves, each with its file in config/.

Topics

    topics              the table of topics
    topic_config        one topic and its JSON
    registered_topics   the topics as the reactor and the name servers know them
    deleted_topics      deleted topics, each with the log's end at that time
    queue_mapping, queue_mappings    the logical queues of one static topic; of all of them

Groups and consumers

    groups, retry_policy    the table of groups; after which delay a failed message comes again
    offsets             consumer offsets: the reactor keeps them, this module writes them to files
    offset_entries      blocks of offsets, as they go between the reactor and this side
    locks               which orderly consumer holds which queue
    request_modes       which groups pull and which pop
    pop_orders          batches popped in order

Files and versions

    metadata_journal    changes of topics, groups and offsets, between two writes of their JSON
    config_saver        writes a table's changes to its file, in a thread beside the loop
    data_version        by which others see that a table changed
    stamps              versions of the items that shards share
    attributes          attributes of topics and groups

Delay levels: message_delay_level (how long each is), delay_levels (how far each is delivered).
"""
