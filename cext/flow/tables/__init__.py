"""Tables: topics, groups, offsets and filters as the reactor sees them; control fills them.

    tables              all of them, as one service
    topic_table         a topic's permissions, kind and queues
    queue_mapping       the logical queues of a static topic
    group_table         consumer groups
    subscription_table  what each group wants of each topic
    tag_filter          the tags of a subscription, and their comparison
    offset_table        (topic, group, queue) -> the next offset to consume
    offset_commit       a commit of an offset (15)
    delivery_counter    messages and bytes delivered to one group of one topic
    delivery_counter_lists    a group's and a topic's counters: found, made, removed
    sql_filter          one checked SQL92 program, shared by its users

Only the reactor touches them; the control thread changes them by calls.
"""
