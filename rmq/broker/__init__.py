"""Broker: the control side of a shard, which serves all that is rare; docs/design/control.md.

    broker          puts the rooms together; no room imports it
    access          who may ask for what
    certificates    what clients that speak TLS are shown
    requests        handlers of request codes, by area; handlers.py is the table
    dispatch        from the core's reports to handlers and back
    clients         who is connected, with which subscriptions
    tables          what is kept and saved: topics, groups, offsets, locks
    store           what control reads of the log
    tasks           what runs by time: retention, transaction checks
    registration    name servers and routes
    replication     as master of its slaves, or as slave of its master
    status          runtime table, samples, /metrics
    core_seam       what control calls of the core
    core_options    from settings to the core's options
    reactor_watch   whether the reactor takes turns
    async_logger    log lines of who must not wait
    siblings        the other shards, as a broker sees them
    name_checks, json_members               input checked

Handlers and rooms state what they use in a Protocol; the broker has all of it.
"""
