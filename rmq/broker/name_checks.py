"""Name checks: refuses illegal names of topics and groups.

No text from the wire is used as a name before it was checked here. The rules are those of
rmq/names.py.

Example: check_topic("a/b") raises Refusal 29.
"""

from rmq.codes import ResponseCode
from rmq.names import group_fault, topic_fault
from rmq.refusal import Refusal


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
