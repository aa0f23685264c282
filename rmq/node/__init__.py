"""Node: starts and stops the processes that serve.

    process             start and stop of a name server, a broker, or both
    controller_process  start and stop of a controller
    broker_guard        the accounts a broker's process works with
    store_lock          keeps two brokers off one store
    start_line          the first line of a server's log; what its start found in the store
    ready_line          the line that says a server is ready
    service_manager     systemd hears that a server is ready, lives and stops
    advised_options     options that the shown commands need if not everybody may ask
    role_line           the role a controller gave a broker, for the ready line
    slave_start         what a slave does before and after its store is opened
    truncation          replaces a broker by one with a shorter log
    served_broker       the broker that serves now, across such a replacement

Every command that serves goes through this folder, a shard's process too.
"""
