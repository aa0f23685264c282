"""Pop table: what the shard keeps for consumers that pop.

    pop_pair       of each topic and group that ever popped: jobs that wait, batches in order
    revive_ring    check points of pops whose invisible time ends within about a second, until it is
                   known which of their messages were not acknowledged (revive.pxd)
    merged_ack     acks of this turn

Before that second, a popped message takes no memory: its check point is in the log as a timed
message, and so is its ack.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.fetch.readahead cimport Readahead
from cext.flow.pop.merged_ack cimport MergedAck
from cext.flow.pop.pop_pair cimport PopPair
from cext.flow.pop.revive_ring cimport ReviveQueue
from cext.flow.tables.group_table cimport GroupTable
from cext.flow.tables.topic_table cimport Topic
from cext.memory.name_map cimport NameMap
from cext.memory.use_count cimport RemovedList

cdef enum:
    PAIRS_MAX = 262144              # that pops may make; those for check points come on top
    REVIVE_QUEUES_MAX = 64
    MERGED_PLACES = 16              # check points gathered at a time; a power of two
    RETRY_NAME_MAX = 768            # of a retry topic: prefix, group and topic

cdef struct Pops:
    NameMap pairs                   # topic \n group -> PopPair*
    uint8_t revive_name[256]        # rmq_sys_REVIVE_LOG_ + cluster
    uint32_t revive_name_bytes
    ReviveQueue queues[REVIVE_QUEUES_MAX]
    uint32_t turn_around            # number of check points: revive queues take turns
    uint64_t order_version          # grows with each change of a block (pop_order.pxd)
    MergedAck merged[MERGED_PLACES]
    int32_t merging                 # not 0: some place of `merged` is taken
    bint appended                   # check points were written since the last write-out
    int64_t next_check_ms           # monotonic: no look before; 0: look at once
    int32_t first                   # revive queue the next turn begins with
    int32_t wanted                  # looks that found no retry topic, since control was asked
    Readahead readahead             # of the revive log and of messages that come again
    # Settings.
    int32_t retry_share             # popFromRetryProbability, percent
    int32_t revive_queues           # reviveQueueNum
    int32_t waiting_max             # popPollingSize, for each pair
    bint retry_v2                   # enableRetryTopicV2
    bint keep_retry_topic           # popResponseReturnActualRetryTopic
    int64_t inflight_max            # popInflightMessageThreshold; -1: no limit
    int64_t opened_ms               # wall clock
    # Counters.
    uint64_t pops
    uint64_t popped                 # messages given
    uint64_t acks                   # messages
    uint64_t changes                # of invisible times
    uint64_t check_points           # written
    uint64_t revived                # messages that came back
    uint64_t unreadable             # could not come back: deleted, or damaged
    uint64_t acks_late              # their check point was not, or no longer, waited for
    uint64_t hurried                # check points of a full ring revived, acks unread

# The pair, made when it does not exist; NULL when there are too many, or memory is out. A pair that
# was made for check points on top of the limit is not given to pops until there is room; then it
# becomes an ordinary one.
cdef PopPair* pair_obtain(Pops* pops, Topic* topic, const uint8_t* group,
                          uint32_t group_length) noexcept nogil
# The same for a check point, without a limit: otherwise its unacknowledged messages would come to
# nobody. An earlier run of the broker may have left check points of as many pairs as it had. NULL:
# memory is out.
cdef PopPair* pair_of_check_point(Pops* pops, Topic* topic, const uint8_t* group,
                                  uint32_t group_length) noexcept nogil
# After the end of a check point: if its pair was made on top of PAIRS_MAX others, so that no pop
# has it, the pair goes with its last check point. A pair that a pop has obtained stays. So there
# are at most PAIRS_MAX pairs, and one for each check point that waits (CHECK_POINTS_MAX of each
# revive queue).
cdef void pair_leave(Pops* pops, NameMap* topics, RemovedList* removed,
                     PopPair* pair) noexcept nogil
cdef PopPair* pair_find(Pops* pops, const Topic* topic, const uint8_t* group,
                        uint32_t group_length) noexcept nogil
# Takes the pair out of the table: nothing waits at it any more, nothing wakes it.
cdef void pair_remove(Pops* pops, NameMap* topics, RemovedList* removed,
                      PopPair* pair) noexcept nogil
# A group's pairs, one a call, NULL at the end; `cursor` begins at 0. Any of them may be removed.
cdef PopPair* next_pair_of_group(Pops* pops, uint64_t* cursor, const uint8_t* group,
                                 uint32_t group_length) noexcept nogil
# The retry topic by which a group gets again what it popped from a topic and did not acknowledge,
# at most 520 bytes: %RETRY%group_topic, with a plus sign in v2. Both return the name's length.
cdef uint32_t pop_retry_name(const uint8_t* group, uint32_t group_bytes, const uint8_t* topic,
                             uint32_t topic_bytes, bint v2, uint8_t* out) noexcept nogil
cdef uint32_t retry_topic_name(const PopPair* pair, bint v2, uint8_t* out) noexcept nogil
# Whether %RETRY%a_b, from which group a would get its messages again, is another group's: that of a
# group named a_b, if there is one, whose ordinary retry topic has this name. Then a uses the v2
# name.
cdef bint is_others_retry_topic(GroupTable* groups, const uint8_t* name, uint32_t length,
                                const uint8_t* group, uint32_t group_bytes) noexcept nogil
# Takes the settings of ShardCore's dict; ConfigError when the cluster's name is too long.
cdef int pops_open(Pops* pops, dict given) except -1
cdef void pops_close(Pops* pops) noexcept nogil
