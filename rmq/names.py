"""Names: which names of topics and groups are allowed, and which ones the system uses.

The name of a topic has 1-127 characters of A-Z a-z 0-9 % | - _, or up to 255 if it starts with
%RETRY% or %DLQ%. Names that start with %RETRY% may also have a plus (retry topics of pops, version
2). The name of a group has 1-120 of the same characters. No legal name therefore has a dot or a
slash, and a checked name may become a directory of the store. Nothing from the wire is used as a
name before it is checked here.

cext/wire/system_topics.pxd has the names that compiled code knows, too, and says what they are for.
tests/source/test_vocabulary.py compares the two, and refuses these names anywhere else.

Example: topic_fault("a/b") says what is wrong with it; retry_topic("g") is "%RETRY%g".
"""

import re

from rmq.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    GROUP_CHARACTERS_MAX,
    RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX,
    TOPIC_CHARACTERS_MAX,
)

RETRY_PREFIX = "%RETRY%"
POP_RETRY_V2 = "+"  # between group and topic
DLQ_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
OLD_SYSTEM_TOPIC_PREFIX = "RMQ_SYS_"  # of system topics that are older than the prefix above
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# Groups of a cloud's proxies, which are system groups, too.
PROXY_GROUP_PREFIXES = ("CID_ONS-HTTP-PROXY", "CID_ONSAPI_")

REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
REPLY_TOPIC_SUFFIX = "REPLY_TOPIC"

AUTO_CREATE_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
OFFSET_CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"

# The broker name that RocketMQ's clients give to the logical queues of a static topic. If the topic
# has a scope of its own, the scope follows the prefix.
LOGIC_QUEUE_PREFIX = "__syslo__"
LOGIC_QUEUE_BROKER = f"{LOGIC_QUEUE_PREFIX}global__"

# A namespace of the name servers' key-value configuration: topic -> "broker-a:4;broker-b:4".
ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"

# Properties of a message that several modules know.
SHARDING_KEY = "__SHARDINGKEY"  # messages with equal keys stay in order
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"  # of a half message: no check back before this

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"  # its offsets: up to where transactions are ended
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"  # its offsets: up to where the revive log is read
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
CLIENT_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"  # for messages that clients send by themselves
FILTER_SERVER_GROUP = "FILTERSRV_CONSUMER"
SELF_TEST_GROUP = "SELF_TEST_C_GROUP"

SYSTEM_TOPICS = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
        OFFSET_CHECKPOINT_TOPIC,
    }
)
# Topics in which a broker keeps users' messages for itself; the revive log is one, too.
_INNER_TOPICS = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC})
# Topics that a client must not send to.
CLOSED_TO_CLIENTS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_EVENT,
    }
)
PRESET_GROUPS = frozenset(
    {
        TOOLS_CONSUMER_GROUP,
        FILTER_SERVER_GROUP,
        SELF_TEST_GROUP,
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        TRANSACTION_GROUP,
    }
)

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def topic_fault(topic: str) -> str | None:
    """What is wrong with this name of a topic; None if it is legal."""
    if not topic.strip():
        return "the topic is blank"
    plain = topic.replace("+", "_", 1) if topic.startswith(RETRY_PREFIX) else topic
    if _NAME.fullmatch(plain) is None:
        return f"the topic {topic[:300]!r} holds characters outside ^[%|a-zA-Z0-9_-]+$"
    limit = TOPIC_CHARACTERS_MAX
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        limit = RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX
    if len(topic) > limit:
        return f"the topic {topic[:300]!r} has {len(topic)} characters, at most {limit} are allowed"
    return None


def group_fault(group: str) -> str | None:
    """What is wrong with this name of a group; None if it is legal."""
    if not group.strip():
        return "the group is blank"
    if _NAME.fullmatch(group) is None:
        return f"the group {group[:300]!r} holds characters outside ^[%|a-zA-Z0-9_-]+$"
    if len(group) > GROUP_CHARACTERS_MAX:
        return (
            f"the group {group[:300]!r} has {len(group)} characters, "
            f"at most {GROUP_CHARACTERS_MAX} are allowed"
        )
    return None


def is_inner(topic: str) -> bool:
    """Whether a broker writes this topic for itself: half, delayed and timed messages, and the
    revive log."""
    return topic in _INNER_TOPICS or (topic.startswith(REVIVE_PREFIX) and topic != REVIVE_PREFIX)


def is_client_id(text: str) -> bool:
    return 0 < len(text) <= CLIENT_ID_CHARACTERS_MAX and text.isprintable()


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """The retry topics, of versions 1 and 2, for messages of the topic that the group has popped
    and not acknowledged."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}{POP_RETRY_V2}{topic}"


def popped_topic(retry: str, group: str) -> str | None:
    """The topic from which pop_retry_topics() has made this name; None: it is not a retry topic of
    the group."""
    found = (each for each in pop_retry_topics(group, "") if retry.startswith(each))
    return next((retry[len(each) :] for each in found), None)


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def is_system_group(group: str) -> bool:
    return group in PRESET_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def reply_topic(cluster: str) -> str:
    """The topic to which consumers send replies for producers of the cluster."""
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def broker_member_topic(broker: str) -> str:
    return BROKER_MEMBER_PREFIX + broker


def is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_system(topic: str) -> bool:
    """Whether it is a topic of brokers, not of users. Retry topics and dead letters belong to their
    groups."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
