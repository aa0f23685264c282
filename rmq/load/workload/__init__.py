"""Workload: files of the OpenMessaging benchmark, run by the load generator (`rmq bench omb`).

settings          what a file says, checked
sustainable_rate  the pace at which consumers keep up, where a file names none (producerRate: 0)
durations         counts of a histogram: those of a period are the difference of two
rig               producers and consumers, a thread each, and what they have done so far
run               warm-up, backlog, measured time
result            the JSON that the benchmark writes
"""
