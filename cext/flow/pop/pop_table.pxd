"""Pop table: what the shard keeps for consumers that pop.

    pop_pair       of each topic and group that ever popped: who waits, what is in order
    revive_ring    check points of pops whose invisible time ends within about a second, until it is
                   known which of their messages were not acknowledged (revive.pxd)
    merged_ack     acks of this turn

Nothing is kept in memory for a message under way before that second: its check point stands in the
log as a timed message, and so does its ack.
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
    PAIRS_MAX = 262144              # that pops may make; check points of others come beside them
    REVIVE_QUEUES_MAX = 64
    MERGED_PLACES = 16              # check points whose acks are gathered at a time; a power of two
    RETRY_NAME_MAX = 768            # of a retry topic: prefix, group and topic

cdef struct Pops:
    NameMap pairs                   # topic \n group -> PopPair*
    uint8_t revive_name[256]        # rmq_sys_REVIVE_LOG_ + cluster
    uint32_t revive_name_bytes
    ReviveQueue queues[REVIVE_QUEUES_MAX]
    uint32_t turn_around            # revive queues are used in turn
    uint64_t order_version          # grows with each change of a block (pop_order.pxd)
    MergedAck merged[MERGED_PLACES]
    int32_t merging                 # not 0: one of them is taken
    bint appended                   # check points were written since the last write-out
    int64_t next_check_ms           # monotonic: not to be looked at before; 0: at once
    int32_t first                   # revive queue the next turn begins with
    int32_t wanted                  # looks that found no retry topic, since control was asked
    Readahead readahead             # of the revive log and of what comes again
    # Settings.
    int32_t retry_share             # popFromRetryProbability, percent
    int32_t revive_queues           # reviveQueueNum
    int32_t waiting_max             # popPollingSize, of a pair
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
    uint64_t acks_late              # for no check point that is waited for
    uint64_t hurried                # check points of a full ring that gave messages, acks unread

# The pair, made when it is not there; NULL when there are too many, or memory is out. One that a
# check point has made beside them is nobody else's until there is room: then it is one as any.
cdef PopPair* pair_obtain(Pops* pops, Topic* topic, const uint8_t* group,
                          uint32_t group_length) noexcept nogil
# The same for a check point, however many there are: messages of which none is taken would come to
# nobody. Of another run of the broker there may be as many as it had. NULL: memory is out.
cdef PopPair* pair_of_check_point(Pops* pops, Topic* topic, const uint8_t* group,
                                  uint32_t group_length) noexcept nogil
# Behind the end of a check point: its pair goes with the last of them, if it was made beside
# PAIRS_MAX others; no pop has it then. A pair that a pop has obtained stays. So there are no more
# than that and the check points that wait (CHECK_POINTS_MAX of each revive queue).
cdef void pair_leave(Pops* pops, NameMap* topics, RemovedList* removed,
                     PopPair* pair) noexcept nogil
cdef PopPair* pair_find(Pops* pops, const Topic* topic, const uint8_t* group,
                        uint32_t group_length) noexcept nogil
# Out of the table: nobody waits at it any more, nothing wakes it.
cdef void pair_remove(Pops* pops, NameMap* topics, RemovedList* removed,
                      PopPair* pair) noexcept nogil
# A group's pairs, one a call, NULL at the end; `cursor` begins at 0. Any of them may be removed.
cdef PopPair* next_pair_of_group(Pops* pops, uint64_t* cursor, const uint8_t* group,
                                 uint32_t group_length) noexcept nogil
# Where a group gets again what it popped of a topic and did not acknowledge, at most 520 bytes:
# %RETRY%group_topic, with a plus in v2. Both return the name's length.
cdef uint32_t pop_retry_name(const uint8_t* group, uint32_t group_bytes, const uint8_t* topic,
                             uint32_t topic_bytes, bint v2, uint8_t* out) noexcept nogil
cdef uint32_t retry_topic_name(const PopPair* pair, bint v2, uint8_t* out) noexcept nogil
# Whether what the group a would get again from %RETRY%a_b is another one's: it is the retry topic
# of the group a_b, where there is one, as it was before there were pops. Then a has that of v2.
cdef bint is_others_retry_topic(GroupTable* groups, const uint8_t* name, uint32_t length,
                                const uint8_t* group, uint32_t group_bytes) noexcept nogil
# Takes the settings of ShardCore's dict; ConfigError when the cluster's name is too long.
cdef int pops_open(Pops* pops, dict given) except -1
cdef void pops_close(Pops* pops) noexcept nogil
