"""What the answer to a pull says beside its messages.

    if is_reset(reply): ...              # an operator sends the group to another offset

A queue's ends may move, too: a broker tells a pull behind the end of the queue where that is, and a
pull before its beginning where it begins now. The code is the same (PULL_OFFSET_MOVED); RocketMQ's
brokers have the reason in the remark.
"""

from __future__ import annotations

from cext.client.reply import Reply
from rmq.codes import ResponseCode

RESET = "OFFSET_RESET"


def is_reset(reply: Reply) -> bool:
    """Whether the group goes on at the answer's offset, whatever it has read."""
    return reply.code == ResponseCode.PULL_OFFSET_MOVED and reply.remark == RESET
