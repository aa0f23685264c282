"""Load: the Python half of the load generator (cext/load): all that is not done per message.

frames      templates of sends, batches and pulls, byte for byte what a Java 5.x client sends
control     routes, topics and offsets over the name server and the brokers
cpu         CPU seconds of processes from /proc
open_files  how many are needed, and the error when there are too few
latency     percentiles of the counted latencies
run         one measured run: warm-up, counting, drain
report      results as text and as JSON
workload    workloads of the OpenMessaging benchmark
"""
