"""What the answer to a pull says beside its messages.

    if is_reset(reply): ...              # an operator sends the group to another offset
    pause_ms(reply, asked, following)    # before the next pull; 0: it is sent at once

A queue's ends may move, too: a broker tells a pull behind the end of the queue where that is, and a
pull before its beginning where it begins now. The code is the same (PULL_OFFSET_MOVED); RocketMQ's
brokers have the reason in the remark.
"""

from __future__ import annotations

from cext.client.reply import Reply
from rmq.codes import ResponseCode

RESET = "OFFSET_RESET"
SOON_US, SOON_PAUSE_MS = 5_000, 100  # "nothing new" that came at once is not asked again at once


def is_reset(reply: Reply) -> bool:
    """Whether the group goes on at the answer's offset, whatever it has read."""
    return reply.code == ResponseCode.PULL_OFFSET_MOVED and reply.remark == RESET


def pause_ms(reply: Reply, asked: int, following: int) -> int:
    """Where the answer leads no further, the next pull has to wait: unless this one has waited at
    the broker for what is new. A slave that lacks the beginning of a queue answers at once, and
    while its master is away there is nobody else to ask."""
    if following != asked:
        return 0
    was_held = reply.code == ResponseCode.PULL_NOT_FOUND and reply.waited_us >= SOON_US
    return 0 if was_held else SOON_PAUSE_MS
