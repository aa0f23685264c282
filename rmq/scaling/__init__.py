"""Scaling: a cluster of brokers grows and shrinks while clients work. `rmq cluster plan`, `apply`.

    cluster_state       what the brokers have: permissions, topics, groups; plain values
    survey              asks the brokers and name servers for it
    unconsumed          what a broker holds that somebody has still to consume; plain values
    step                one change, as it is shown and as it is done
    plan                state in, steps out: add, drain, undrain, remove
    spread              what a broker lacks of the topics and groups of the others
    replacement         how a broker that is gone is replaced: pointers, no mechanism
    execution           does the steps, and waits for consumers

plan and replacement ask nobody; what they decide is tested without a broker. Everything is said in
RocketMQ's own requests, so the brokers may be Apache's, too.
"""
