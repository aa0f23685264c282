"""Shard metrics: counters, pools, latencies and histograms of a shard, as Python values.

ShardCore's methods of the same names return what these functions read. Nothing here runs in the
reactor: these are plain reads.

    stats_of(services)   {"messages_in": .., ..}: each number is exact, but not all of one moment
    pools_of(services)   {"reply": (buffer bytes, buffers, in use, most in use, refusals), ..}
    latencies_of(append) {"append": ([count per bucket of cext/base/latency], sum in us), ..}
    histograms_of(..)    {"finish": (counts between RocketMQ's bounds, sum in s)}
"""
from cext.flow.append.appender cimport Appender
from cext.flow.transaction.transaction_service cimport TransactionService

# Each service has its own part (context/service.pxd).
cdef dict stats_of(list services)
cdef dict pools_of(list services)
cdef dict latencies_of(Appender append)
cdef dict histograms_of(TransactionService transaction)
