"""What all kinds of consumers share: subscriptions, groups, listeners, offset stores.

member              what every consumer is: one of a group, with the connections of a client
group               what its members ask brokers: who else is there, where a queue begins
rebalance_retry     when queues are shared out again, as the last share is not complete
subscription        which messages of a topic are wanted
offset_stores       where a group goes on: kept by brokers, or in a file
start_offsets       brokers are asked where a group goes on, for all queues at once
pull_answers        what the answer to a pull says beside its messages
listener            what a push consumer's listener gets and returns
deduplication       a listener whose effect happens once
seen_stores         which keys of it are claimed or done
"""
