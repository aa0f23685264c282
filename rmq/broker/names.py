"""Names from the wire: what a topic or a group may be called, and the names that are taken.

A topic is 1-127 characters of A-Z a-z 0-9 % | - _, 255 when it starts with %RETRY% or %DLQ%, and
%RETRY% topics may hold a plus (those of pops, version 2). A group is 1-120 of the same. So no legal
name holds a dot or a slash, and a checked name may become a directory of the store. Nothing from
the wire is used as a name before it went through here.

Example: check_topic("a/b") raises Refusal 29; retry_topic("g") is "%RETRY%g".
"""

import re

from rmq.broker.refusal import Refusal
from rmq.codes import ResponseCode

TOPIC_CHARACTERS_MAX = 127
RETRY_OR_DLQ_TOPIC_CHARACTERS_MAX = 255
GROUP_CHARACTERS_MAX = 120
CLIENT_ID_CHARACTERS_MAX = 512  # ours; clients send ip@pid#nanoseconds and may add a unit name

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

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
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
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


def check_topic(topic: str) -> str:
    """The name itself, or Refusal 29."""
    fault = topic_fault(topic)
    if fault is not None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, fault)
    return topic


def check_group(group: str) -> str:
    """The name itself, or Refusal 29."""
    fault = group_fault(group)
    if fault is not None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, fault)
    return group


def is_client_id(text: str) -> bool:
    return 0 < len(text) <= CLIENT_ID_CHARACTERS_MAX and text.isprintable()


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Where what the group popped and did not acknowledge comes again: versions 1 and 2."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def is_system_group(group: str) -> bool:
    return group in PRESET_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)
