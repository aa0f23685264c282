"""The controller: decides who is master of each broker set, and which replicas must have each ack.

    server          start and stop
    requests        what is done for each request code
    elections       decisions made of what is stored, who lives and whose lease runs; then stored
    decisions       what a request changes of a broker set, and its answer: no I/O, no clock
    broker_set      what is known of one broker name: replicas, master, epochs, who is in sync
    live_replicas   who was heard of lately, and how far its log is
    leases          until when a master may acknowledge without asking again
    state_store     where broker sets are kept, and which controller leads:
    etcd_store, etcd    in etcd, for any number of controllers
    file_store      in a file, for one
    role_notices    replicas hear at once who is master now

It speaks the codes of Apache's controller, so its brokers can use ours, and ours its controller.
"""
