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
    keys                q ends what draws again and again
    check               check: the machine
    check_plugins, plugin    check machine, brokers, group: for monitoring
    store               store check, store dump
    store_backup        store backup, store restore
    store_places        which directories a store is; a bar of progress
    topic, group, cluster    list, create, change, describe, delete
    missing_topic       a topic that does not exist, in the words of who asks about it
    topic_perm, topic_copy, unread      may it be read and written; a copy; what goes out of sight
    other_cluster       a second cluster in one command, asked as whom its context says
    group_settings      group create, update: what it may do, and how often it retries
    group_offsets       group reset, skip, clone: where a group goes on
    group_member        group member: what a member says of itself
    user, acl           users, and what they may do
    account_servers     whose accounts these are
    audit               who changed what, and who was refused
    setup               setup security: the files of a secured server
    generate            generate systemd, compose, k8s, helm, grafana
    cluster_plan        cluster plan, cluster apply: add, drain and remove brokers
    send, consume       messages in, messages out
    send_records        messages of a stream, with keys before them
    dlq                 dead letters: shown, and sent again
    config              settings of running servers
    export, import_file     a topic into a file, and a file into a topic
    message_format      what consume --format prints
    message, message_show   messages found again; one with all there is to it
    message_resend      one sent again
    trace               what clients traced of messages
    debug               debug bundle: what helps to find a trouble, in one archive
    bundle, bundle_parts, secrets_mask    the archive; what goes into it; what does not
    bench, bench_omb    bench producer, consumer, pop; a workload of the OpenMessaging benchmark
    bench_chart         bars of the rate over time and of latencies
    spark               a Spark session, and the list of its options
    console             the web console
    context, contexts   clusters by name, and the file that has them
    completion          what a shell completes by
    account_options     whose requests a command sends
    times, starts       moments, durations and --from as options
    options, addresses  options that commands share; which addresses are served
    output, table       what is printed in each form; rows under named columns
    broker_figures      the columns of top and broker status
    errors              what a command says of an error, and its exit code
    signals, streams    what ends a command as Ctrl-C does; output that nobody reads any more

A command prints; what it prints comes from rmq/operations, rmq/client, rmq/offline, rmq/backup,
rmq/system and others.
"""
