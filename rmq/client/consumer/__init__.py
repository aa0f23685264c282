"""What all kinds of consumers share: subscriptions, groups, listeners, offset stores.

member              Member, the base of all consumers: one member of a group
group               what members ask brokers: the other members, where a queue begins
rebalance_retry     when to share out queues again after a round that was not complete
subscription        which messages of a topic are wanted
offset_stores       keep where a group goes on: at brokers, or in a file
start_offsets       asks brokers where a group goes on, for all queues at once
pull_answers        what the answer to a pull says besides its messages
listener            what a push consumer's listener gets and returns
deduplication       @deduplicate, for a listener whose effect happens once
seen_stores         stores of the keys that deduplication has claimed or done
"""
