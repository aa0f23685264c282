"""Broker: the control side of a shard, which serves all rare requests; docs/design/control.md.

    broker          puts the rooms (the folders here) together; no room imports it
    access          who may ask for what
    certificates    the certificates that clients are shown when they use TLS
    requests        handlers of request codes, by area; handlers.py is the table
    dispatch        from the core's reports to handlers and back
    clients         who is connected, with which subscriptions
    tables          what is kept and saved: topics, groups, offsets, locks
    store           how control reads the log
    tasks           what runs at intervals: retention, transaction checks
    registration    name servers and routes
    replication     this broker as master of its slaves, or as slave of its master
    status          runtime table, samples, /metrics
    core_seam       the core's calls that control uses
    core_options    makes the core's options from the settings
    reactor_watch   notices when the reactor takes no turns any more
    async_logger    log lines written by a thread, for callers that must not wait for a disk
    siblings        the other shards, as a broker sees them
    name_checks, json_members               checks of names and JSON that come from outside

Each handler and each room states what it uses in a Protocol; the broker fulfils all of these.
"""
