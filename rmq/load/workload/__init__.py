"""Workload: files of the OpenMessaging benchmark, run by the load generator (`rmq bench omb`).

settings          the content of a file, checked
sustainable_rate  the pace at which consumers keep up, if a file names none (producerRate: 0)
durations         counts of a histogram: those of a period are the difference of two
figures           what was done up to a moment, or in a period, which is a row
publisher         the producers of one broker, and their thread
subscription      the consumers of a group at one broker, and their thread
topics            topics and groups of one run, created and deleted
sizes             connections and open requests of a broker, and whether there is room for them
rig               producers and consumers at all brokers, and what they have done so far
measured          the results of a run, filled in while it runs
run               warm-up, backlog, measured time
result            the JSON that the benchmark writes
"""
