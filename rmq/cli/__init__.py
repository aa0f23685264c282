"""The command line: `rmq`. A command's module is imported when the command is called.

    main                the root: every command, and the module it is in
    server              standalone, namesrv, broker
    controller          controller
    replica_of          the settings of a slave, taken from its master
    replica             replica status, promote, remove, add
    replica_switch      a planned switch that loses nothing, whatever acks need
    replica_settings    the settings of one more replica
    takeover            takeover: a running master is replaced
    demo                demo cluster
    shards              broker shards, drain, restart, shrink
    status, top         broker status; top
    keys                the key q ends a command that draws its output again and again
    check               check: the machine
    check_plugins, plugin    check machine, brokers, group: for monitoring
    store               store check, store dump
    store_backup        store backup, store restore
    store_places        the directories of a store; a progress bar
    topic, group, cluster    list, create, change, describe, delete
    missing_topic       the error for a topic that does not exist
    topic_perm, topic_copy    permissions; a copy
    unread_question     asks before a change that would leave messages unread
    other_cluster       a second cluster in one command, with the account of its context
    group_settings      group create, update: what it may do, and how often it retries
    group_offsets       group reset, skip, clone: where a group goes on
    group_member        group member: what members say about themselves
    user, acl           users, and what they may do
    account_servers     the servers whose accounts are shown and changed
    audit               who changed what, and who was refused
    setup               setup security: the files of a secured server
    generate            generate systemd, compose, k8s, helm, grafana
    cluster_plan        cluster plan, cluster apply: add, drain and remove brokers
    send, consume       messages in, messages out
    consume_member      consume --group: as a member of a group
    send_records        splits a stream of bytes into messages and their keys
    dlq                 dead letters: shown, and sent again
    config              settings of running servers
    export, import_file     a topic into a file, and a file into a topic
    message_format      what consume --format prints
    message, message_show   finds messages; shows one with everything known about it
    message_resend      sends a stored message again
    trace               what clients traced of messages
    debug               debug bundle: what helps to find a trouble, in one archive
    bundle, bundle_parts, secrets_mask    the archive; its contents; the secrets kept out of it
    bench, bench_omb    bench producer, consumer, pop; a workload of the OpenMessaging benchmark
    bench_chart         bars of the rate over time and of latencies
    spark               a Spark session, and the list of its options
    console             the web console
    context, context_file    clusters by name, and the file that has them
    completion          the script with which a shell completes commands and options
    account_options     the account and TLS with which a command sends its requests
    times, starts       moments, durations and --from as options
    options, addresses  options that commands share; the addresses at which servers listen
    output, table       what is printed in each form; rows under named columns
    broker_figures      the columns of top and broker status
    errors              the text and the exit code of an error
    signals, streams    signals that end a command as Ctrl-C does; output that nobody reads any more

A command prints; what it prints comes from rmq/operations, rmq/client, rmq/offline, rmq/backup,
rmq/system and others.
"""
