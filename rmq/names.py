"""Names: what a topic or a group may be called, and the names that are taken.

A topic is 1-127 characters of A-Z a-z 0-9 % | - _, 255 when it starts with %RETRY% or %DLQ%, and
%RETRY% topics may hold a plus (those of pops, version 2). A group is 1-120 of the same. So no legal
name holds a dot or a slash, and a checked name may become a directory of the store. Nothing from
the wire is used as a name before it went through here.

cext/wire/system_topics.pxd has the names that compiled code knows too, and what they are for;
tests/source/test_vocabulary.py compares the two and refuses these names anywhere else.

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
OLD_SYSTEM_TOPIC_PREFIX = "RMQ_SYS_"  # of topics older than the rule above
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# Clients' ways to the groups of a cloud's proxies: system groups too.
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

# What RocketMQ's clients call the broker of a static topic's logical queues; of one with a scope of
# its own the scope follows the prefix.
LOGIC_QUEUE_PREFIX = "__syslo__"
LOGIC_QUEUE_BROKER = f"{LOGIC_QUEUE_PREFIX}global__"

# Of the name servers' key-value configuration: topic -> "broker-a:4;broker-b:4".
ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"

# Properties of a message that more than one part knows.
SHARDING_KEY = "__SHARDINGKEY"  # those with equal ones stay in order
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"  # of a half message: no check back before

TRANSACTION_GROUP = "CID_RMQ_SYS_TRANS"  # its offsets: how far half and op messages are ended
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"  # how far the revive log is read
TOOLS_CONSUMER_GROUP = "TOOLS_CONSUMER"
CLIENT_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"  # of what clients send for themselves
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
# What a broker writes for itself, of whoever's messages; and the revive log.
_INNER_TOPICS = frozenset({SCHEDULE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TIMER_TOPIC})
# What a client may not send to.
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
    """What is wrong with this name of a topic; None when it is legal."""
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
    """What is wrong with this name of a group; None when it is legal."""
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
    """Whether a broker writes it for itself: half, delayed, timed messages, and what was popped."""
    return topic in _INNER_TOPICS or (topic.startswith(REVIVE_PREFIX) and topic != REVIVE_PREFIX)


def is_client_id(text: str) -> bool:
    return 0 < len(text) <= CLIENT_ID_CHARACTERS_MAX and text.isprintable()


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Where what the group popped and did not acknowledge comes again: versions 1 and 2."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}{POP_RETRY_V2}{topic}"


def popped_topic(retry: str, group: str) -> str | None:
    """The topic that pop_retry_topics() made this of; None: it is none of the group's."""
    found = (each for each in pop_retry_topics(group, "") if retry.startswith(each))
    return next((retry[len(each) :] for each in found), None)


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def is_system_group(group: str) -> bool:
    return group in PRESET_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def reply_topic(cluster: str) -> str:
    """Where answers of consumers to producers of the cluster are sent."""
    return f"{cluster}_{REPLY_TOPIC_SUFFIX}"


def broker_member_topic(broker: str) -> str:
    return BROKER_MEMBER_PREFIX + broker


def is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_system(topic: str) -> bool:
    """A topic of brokers, not of users; retry topics and dead letters are their groups'."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)
