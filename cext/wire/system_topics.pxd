"""System topics: the names of topics and groups that mean something to a broker, and their kinds.

    SCHEDULE_TOPIC_XXXX            messages with a delay level, until they are due
    RMQ_SYS_TRANS_HALF_TOPIC       half messages, until their transaction ends
    RMQ_SYS_TRANS_OP_HALF_TOPIC    which half messages are ended
    rmq_sys_wheel_timer            messages with a time of their own, until they are due
    rmq_sys_REVIVE_LOG_<cluster>   check points of pops, and their acks
    %RETRY%<group>                 messages that the group could not consume and gets again
    %DLQ%<group>                   dead letters: messages that the group does not get again

The compiler computes the lengths. rmq/names.py is the same for Python;
tests/source/test_vocabulary.py compares the two and refuses these names anywhere else. This is a
header of constants: it makes no code, and every folder of cext may use it.

The reactor looks at a topic's name once, when control puts the topic into its table
(topic_table.pxd), and from then on at the kind. A record has only the topic's name: is_named().

Example: topic_kind("%RETRY%g", 8) is TOPIC_RETRY; "%RETRY%" alone is TOPIC_ORDINARY.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

cdef extern from *:
    """
    #define RMQ_SCHEDULE_TOPIC "SCHEDULE_TOPIC_XXXX"
    #define RMQ_HALF_TOPIC "RMQ_SYS_TRANS_HALF_TOPIC"
    #define RMQ_OP_HALF_TOPIC "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    #define RMQ_TRANS_CHECK_MAX_TIME_TOPIC "TRANS_CHECK_MAX_TIME_TOPIC"
    #define RMQ_SELF_TEST_TOPIC "SELF_TEST_TOPIC"
    #define RMQ_OFFSET_MOVED_EVENT "OFFSET_MOVED_EVENT"
    #define RMQ_TIMER_TOPIC "rmq_sys_wheel_timer"
    #define RMQ_REVIVE_PREFIX "rmq_sys_REVIVE_LOG_"
    #define RMQ_RETRY_PREFIX "%RETRY%"
    #define RMQ_DLQ_PREFIX "%DLQ%"
    #define RMQ_REVIVE_GROUP "CID_RMQ_SYS_REVIVE_GROUP"
    #define RMQ_TEXT_BYTES(text) ((uint32_t) sizeof(text) - 1)
    """
    const char* SCHEDULE_TOPIC "RMQ_SCHEDULE_TOPIC"
    const uint32_t SCHEDULE_TOPIC_BYTES "RMQ_TEXT_BYTES(RMQ_SCHEDULE_TOPIC)"
    const char* HALF_TOPIC "RMQ_HALF_TOPIC"
    const uint32_t HALF_TOPIC_BYTES "RMQ_TEXT_BYTES(RMQ_HALF_TOPIC)"
    const char* OP_HALF_TOPIC "RMQ_OP_HALF_TOPIC"
    const uint32_t OP_HALF_TOPIC_BYTES "RMQ_TEXT_BYTES(RMQ_OP_HALF_TOPIC)"
    const char* TRANS_CHECK_MAX_TIME_TOPIC "RMQ_TRANS_CHECK_MAX_TIME_TOPIC"
    const uint32_t TRANS_CHECK_MAX_TIME_TOPIC_BYTES \
        "RMQ_TEXT_BYTES(RMQ_TRANS_CHECK_MAX_TIME_TOPIC)"
    const char* SELF_TEST_TOPIC "RMQ_SELF_TEST_TOPIC"
    const uint32_t SELF_TEST_TOPIC_BYTES "RMQ_TEXT_BYTES(RMQ_SELF_TEST_TOPIC)"
    const char* OFFSET_MOVED_EVENT "RMQ_OFFSET_MOVED_EVENT"
    const uint32_t OFFSET_MOVED_EVENT_BYTES "RMQ_TEXT_BYTES(RMQ_OFFSET_MOVED_EVENT)"
    const char* TIMER_TOPIC "RMQ_TIMER_TOPIC"
    const uint32_t TIMER_TOPIC_BYTES "RMQ_TEXT_BYTES(RMQ_TIMER_TOPIC)"
    const char* REVIVE_PREFIX "RMQ_REVIVE_PREFIX"
    const uint32_t REVIVE_PREFIX_BYTES "RMQ_TEXT_BYTES(RMQ_REVIVE_PREFIX)"
    const char* RETRY_PREFIX "RMQ_RETRY_PREFIX"
    const uint32_t RETRY_PREFIX_BYTES "RMQ_TEXT_BYTES(RMQ_RETRY_PREFIX)"
    const char* DLQ_PREFIX "RMQ_DLQ_PREFIX"
    const uint32_t DLQ_PREFIX_BYTES "RMQ_TEXT_BYTES(RMQ_DLQ_PREFIX)"
    const char* REVIVE_GROUP "RMQ_REVIVE_GROUP"
    const uint32_t REVIVE_GROUP_BYTES "RMQ_TEXT_BYTES(RMQ_REVIVE_GROUP)"

cdef enum TopicKind:
    TOPIC_ORDINARY = 0          # every topic that is none of those below
    TOPIC_RETRY
    TOPIC_DEAD_LETTER
    TOPIC_TIMER                 # from here to TOPIC_OP_HALF: inner topics
    TOPIC_REVIVE
    TOPIC_SCHEDULE              # this one and those after it are closed to clients' sends
    TOPIC_HALF
    TOPIC_OP_HALF
    TOPIC_CLOSED                # TRANS_CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_EVENT

cdef inline bint is_named(const uint8_t* name, uint32_t length, const char* other,
                          uint32_t other_bytes) noexcept nogil:
    return length == other_bytes and memcmp(name, other, other_bytes) == 0

# Whether the name is this prefix with something after it.
cdef inline bint has_prefix(const uint8_t* name, uint32_t length, const char* prefix,
                            uint32_t prefix_bytes) noexcept nogil:
    return length > prefix_bytes and memcmp(name, prefix, prefix_bytes) == 0

# Whether the broker writes into the topic for its own use, whoever's messages these are.
cdef inline bint is_inner(TopicKind kind) noexcept nogil:
    return TOPIC_TIMER <= kind <= TOPIC_OP_HALF

# Whether the topic is closed to clients' sends.
cdef inline bint is_closed(TopicKind kind) noexcept nogil:
    return kind >= TOPIC_SCHEDULE

cdef inline TopicKind topic_kind(const uint8_t* name, uint32_t length) noexcept nogil:
    if has_prefix(name, length, RETRY_PREFIX, RETRY_PREFIX_BYTES):
        return TOPIC_RETRY
    if has_prefix(name, length, DLQ_PREFIX, DLQ_PREFIX_BYTES):
        return TOPIC_DEAD_LETTER
    if has_prefix(name, length, REVIVE_PREFIX, REVIVE_PREFIX_BYTES):
        return TOPIC_REVIVE
    if is_named(name, length, TIMER_TOPIC, TIMER_TOPIC_BYTES):
        return TOPIC_TIMER
    if is_named(name, length, SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES):
        return TOPIC_SCHEDULE
    if is_named(name, length, HALF_TOPIC, HALF_TOPIC_BYTES):
        return TOPIC_HALF
    if is_named(name, length, OP_HALF_TOPIC, OP_HALF_TOPIC_BYTES):
        return TOPIC_OP_HALF
    if (is_named(name, length, TRANS_CHECK_MAX_TIME_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC_BYTES)
            or is_named(name, length, SELF_TEST_TOPIC, SELF_TEST_TOPIC_BYTES)
            or is_named(name, length, OFFSET_MOVED_EVENT, OFFSET_MOVED_EVENT_BYTES)):
        return TOPIC_CLOSED
    return TOPIC_ORDINARY

# is_inner for a name. It first excludes names that are shorter or begin otherwise, as most do.
cdef inline bint is_inner_name(const uint8_t* name, uint32_t length) noexcept nogil:
    return (length >= SCHEDULE_TOPIC_BYTES and (name[0] == c"r" or name[0] == c"R"
                                                or name[0] == c"S")
            and is_inner(topic_kind(name, length)))
