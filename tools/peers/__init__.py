"""The programs rmq is compared with, started on loopback from published packages.

    cache.py    jars from Maven Central, fetched once into $RMQ_CACHE (~/.cache/rmq/peers)
    probe.py    a frame of the remoting protocol in 60 lines, to see whether a server answers
    server.py   a child process with a log file: start, wait until ready, stop, kill
    apache.py   Apache RocketMQ name server and broker
    proxy.py    its proxy, which gRPC clients connect to
    npm.py      packages of npm in the same cache
    mqadmin.py  the mqadmin command line, one JVM for each call
    java_client.py  the Java client, which writes down what it does and is told

`python -m tools.peers --help` starts Apache RocketMQ by hand. Nothing here is part of the
installed package: the tests and the benchmarks use it.
"""
