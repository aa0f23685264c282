"""Shard metrics: counters, pools, latencies and topics of a shard, as Python values.

ShardCore's methods of the same names hand out what these functions read. Nothing here runs in the
reactor: these are plain reads.

    counters_of(s)   {"messages_in": .., ..}: plain reads, each exact, not all of the same moment
    pools_of(s)      {"reply": (buffer bytes, buffers, in use, most in use, refusals), ..}
    latencies_of(s)  {"append": ([count per bucket of cext/base/latency], sum in us), "flush": ..}
"""
from cext.flow.shard_state cimport ShardState

cdef dict counters_of(ShardState s)
cdef dict pools_of(ShardState s)
cdef dict latencies_of(ShardState s)
# Counts between RocketMQ's bounds: {"finish": (counts, sum in s)}.
cdef dict steps_of(ShardState s)
# The arena in numbers, as counters of stats(): bytes, used, refusals, sealed, locked, node.
cdef dict memory_of(ShardState s)
