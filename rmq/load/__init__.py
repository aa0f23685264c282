"""Load: the Python half of the load generator (cext/load): all that is not per message.

frames      templates of sends, batches and pulls, byte for byte what a Java 5.x client sends
control     routes, topics and offsets over the name server and the brokers
cpu         CPU seconds of processes from /proc
open_files  how many are needed, and what to say where there are too few
latency     percentiles of what was counted
run         one measured run: warm-up, counting, drain
report      results as text and as JSON
workload    workloads of the OpenMessaging benchmark
"""
