"""The controller: decides who is master of each broker set, and which replicas are in sync.

    server          start and stop
    requests        what is done for each request code
    elections       makes decisions from what is stored, who lives and whose lease runs; stores them
    decisions       what a request changes in a broker set, and its answer: no I/O, no clock
    broker_set      what is known of one broker name: replicas, master, epochs, who is in sync
    live_replicas   which replicas were heard from lately, and how far their logs are
    leases          until when a master may acknowledge without asking again
    state_store     where broker sets are kept, and which controller leads:
    etcd_store, etcd    in etcd, for any number of controllers
    file_store      in a file, for one controller
    role_notices    tells replicas at once who is master now

It uses the request codes of Apache's controller, so Apache's brokers can use this controller, and
brokers of rmq can use Apache's.
"""
