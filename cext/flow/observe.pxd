"""What an operator wants to see of a shard, as Python values: counters, pools, latencies, topics.

ShardCore's methods of the same names hand out what these functions read. Nothing here runs in the
reactor but call_copy_topics(), which copies a bounded number of topics per call.

    counters_of(s)   {"messages_in": .., ..}: plain reads, each exact, not all of the same moment
    pools_of(s)      {"reply": (buffer bytes, buffers, in use, most in use, refusals), ..}
    latencies_of(s)  {"append": ([count per bucket of cext/base/latency], sum in us), "flush": ..}
"""
from libc.stdint cimport uint8_t, uint64_t

from cext.flow.control.calls cimport Arguments
from cext.flow.shard_state cimport ShardState

cdef enum:
    TOPICS_PER_CALL = 256

cdef dict counters_of(ShardState s)
cdef dict pools_of(ShardState s)
cdef dict latencies_of(ShardState s)
# Counts between RocketMQ's bounds: {"finish": (counts, sum in s)}.
cdef dict steps_of(ShardState s)
# The arena in numbers, as counters of stats(): bytes, used, refusals, sealed, locked, node.
cdef dict memory_of(ShardState s)
# numbers[0]: cursor, 0 at first. results[0]: cursor to go on with, 0 at the end. block: per topic
# u32 name bytes, u32 queues, 4 counters and TopicNumbers as u64, name, then i64 (min, max offset)
# of each queue, -1 for one that was never used.
cdef void call_copy_topics(ShardState s, Arguments* x) noexcept nogil
# Adds what a block holds to {name: (messages in, bytes in, messages out, bytes out,
# [(min, max) or None of each queue], TopicNumbers)}.
cdef int read_topics(const uint8_t* block, uint64_t bytes, dict out) except -1
