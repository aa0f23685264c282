"""Scaling: a cluster of brokers grows and shrinks while clients work. `rmq cluster plan`, `apply`.

    cluster_state       what the brokers have: permissions, topics, groups; plain values
    survey              asks the brokers and name servers for that
    unconsumed          what a broker holds that groups have still to consume; plain values
    step                one change, as it is shown and as it is done
    plan                state in, steps out: add, drain, undrain, remove
    spread              what a broker lacks of the topics and groups of the others
    replacement         how a broker that is gone is replaced: advice, no mechanism
    execution           does the steps, and waits for consumers

plan and replacement send no requests, so their decisions are tested without a broker. All requests
are RocketMQ's own, so the brokers may be Apache's, too.
"""
