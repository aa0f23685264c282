"""Flow: the way of the data through a shard. It alone sees wire, store and net together.

The turn

    turn                the table of the turn's steps in their order, and the loop of turns
    housekeeping        what is done once a second
    queue_repairs       repaired queue files: a log line; held pulls and pops go on
    shard_state         the services of a shard, one for each folder, and the classes above them
    shard_memory        how much memory a shard needs, and how its services take it
    shard_metrics       a shard's counters as Python values

What comes in

    request_router      from a frame to the handler of its request code: the table
    connection_events   what the sockets report of a connection
    postponed_requests  one-way requests that are tried again in the next turns
    control_inbox       what the control thread has put into the reactor's ring

What Python sees

    shard_core          ShardCore: open, start, stop, and the numbers
    shard_calls         all calls of the control thread, put together from those of control/
    slave_replay        a log that is a copy of another core's, and its promotion

Folders, each after those it may use

    context             what every step may need: clocks, options, outcomes, small replies
    tables              topics, groups, offsets and filters as the reactor sees them
    append              a message becomes a record: appended, dispatched, acknowledged
    fetch               reads of the disk, and requests that wait for them
    pull                pulls answered, held, or given to a disk reader
    delay               delay levels and timed messages
    transaction         half messages, their ends, check backs
    request_reply       replies of consumers, pushed to the producer
    send                sends, batches, recalls, what consumers send back
    pop                 pops, their acks, and what comes again
    replication         the log to slaves, and from the master
    auth                whether a request may be served, where there are accounts
    control             what the control thread calls, a file for each noun

Which folder may use which is in tools/layers.toml.
"""
