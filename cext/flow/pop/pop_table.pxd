"""Pop table: what the shard keeps for consumers that pop.

    PopPair        of each topic and group that ever popped: who waits, what is in order
    CheckPoint     of each pop whose invisible time ends within about a second, until it is known
                   which of its messages were not acknowledged (revive.pxd)

Nothing is kept in memory for a message under way before that second: its check point stands in the
log as a timed message, and so does its ack.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from cext.flow.append.ack_queue cimport AckReply
from cext.flow.fetch.readahead cimport Readahead
from cext.flow.tables.group_table cimport GroupTable
from cext.flow.tables.topic_table cimport Topic
from cext.memory.chain cimport ChainEntry
from cext.memory.name_map cimport NameMap
from cext.memory.use_count cimport RemovedList, UseCount

cdef enum:
    PAIRS_MAX = 262144              # that pops may make; check points of others come beside them
    REVIVE_QUEUES_MAX = 64
    CHECK_POINTS_MAX = 65536        # of each revive queue; more stay in its log until there is room
    MERGED_PLACES = 16              # check points whose acks are gathered at a time; a power of two
    MERGED_ACKS = 32                # of one of them
    MERGED_NAMES_BYTES = 1024
    RETRY_NAME_MAX = 768            # of a retry topic: prefix, group and topic

# What consumers of a group that pop from a topic share; goes with either of them.
cdef struct PopPair:
    UseCount use                # by pops and check points (revive_ring.pxd)
    Topic* topic                # borrowed; NULL when the pair is removed
    PopPair* next_of_topic      # in topic.pop_waiting
    ChainEntry* first           # PopJobs that wait, oldest first (held_pops.pxd)
    int32_t waiting
    int32_t special             # of these, notifications and pops of one queue
    int32_t awake               # pops of all queues, woken and not answered yet
    bint beside                 # its check points' alone: pops have made enough (PAIRS_MAX)
    int32_t order_slots         # length of `orders`
    void** orders               # OrderBlock of each queue (pop_order.pxd), or NULL
    int32_t flight_slots        # length of `flights`
    int64_t* flights            # of each queue (pop_inflight.pxd); owned
    uint32_t group_length
    uint8_t* group              # owned

cdef struct CheckPoint:
    PopPair* pair                   # used; of the topic the messages lie in, maybe a retry topic
    int64_t revive_ms               # when the messages are visible again, by the wall clock
    int64_t revive_offset           # where it stands in the revive log
    int64_t start_offset
    int64_t pop_ms
    int32_t queue_id
    int32_t count                   # messages given
    uint32_t done                   # bits: acknowledged, or in the retry topic
    int32_t next                    # in its bucket, -1 ends
    bint finished                   # done with, but an older one is not
    int32_t behind[32]              # offset of each message, from start_offset

cdef struct ReviveQueue:
    bint begun                      # the offsets are known
    int64_t next_offset             # all before it are read
    int64_t told_offset             # as committed for RocketMQ's revive group
    int64_t commit_offset           # to be committed in the next turn
    int64_t again_ms                # monotonic: its read failed, none before; 0: its last did not
    CheckPoint* ring                # owned; grows up to CHECK_POINTS_MAX
    int32_t* buckets                # owned; capacity of them
    uint64_t* heap                  # owned; numbers of those not finished, the next in time on top
    uint32_t heap_count
    uint32_t capacity               # a power of two; 0: none yet
    uint64_t head                   # number of the oldest; number n is at n modulo capacity
    uint64_t tail

cdef struct MergedAck:              # of one check point, of this turn (pop_merge.pxd)
    int32_t count                   # 0: the place is free
    int32_t queue_id
    int32_t revive_queue
    uint32_t lengths[3]
    int64_t start_offset
    int64_t pop_ms
    int64_t invisible_ms
    int64_t offsets[MERGED_ACKS]
    AckReply replies[MERGED_ACKS]
    uint8_t names[MERGED_NAMES_BYTES]       # topic, group, broker

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
    int64_t look_ms                 # monotonic: not to be looked at before; 0: at once
    int32_t first                   # revive queue the next turn begins with
    int32_t wanted                  # looks that found no retry topic, since control was asked
    Readahead readahead             # of the revive log and of what comes again
    # Settings.
    int32_t retry_share             # popFromRetryProbability, percent
    int32_t revive_queues           # reviveQueueNum
    int32_t waiting_max             # popPollingSize, of a pair
    bint retry_v2                   # enableRetryTopicV2
    bint keep_retry_topic           # popResponseReturnActualRetryTopic
    int64_t flight_max              # popInflightMessageThreshold; -1: no limit
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
    uint64_t hurried                # check points revived of a full ring, not all acks read

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
