"""Peers: the programs rmq is compared with, started on loopback from published packages.

    cache.py    their files, fetched once into $RMQ_CACHE (~/.cache/rmq/peers)
    go_program.py   programs in Go, built into the cache
    java_program.py  programs in Java, likewise
    probe.py    a frame of the remoting protocol in 60 lines, to see whether a server answers
    server.py   a child process with a log file: start, wait until ready, stop, kill
    apache.py   Apache RocketMQ name server and broker
    proxy.py    its proxy, which gRPC clients connect to
    npm.py      packages of npm in the same cache
    kafka.py    Kafka on one node, and the load for it
    nats.py     NATS with JetStream, and the load for it (nats_load/, in Go)
    etcd/       etcd's own server, in Go, newer than a distribution's
    prometheus.py   Prometheus and promtool
    helm.py         Helm
    mqadmin.py  the mqadmin command line, one JVM for each call
    java_client.py  the Java client: as a program that writes a history, or as a load
    java_load/  loads in turns over Java clients: RocketMQ's, Kafka's
    load_process.py  a load in a process of its own, which runs in turns

`python -m tools.peers --help` starts Apache RocketMQ by hand. Nothing here is part of the
installed package: the tests and the benchmarks use it.
"""
