"""Node: what a process needs that serves.

    process             start and stop of a name server, a broker, or both
    controller_process  start and stop of a controller
    broker_guard        the accounts of a broker's process
    store_lock          keeps two brokers off one store
    start_line          the first line of a server's log; what its start found in the store
    ready_line          the line that says a server is ready
    service_manager     systemd hears that a server is ready, lives and stops
    advised_options     what the commands of that line need where not everybody may ask
    role_line           what the controller made of a broker, for that line
    slave_start         what a slave does before and after its store is opened
    truncation          a broker goes on with a shorter log
    served_broker       the broker that serves now, before and after that

Every command that serves goes through here, a shard's process too.
"""
