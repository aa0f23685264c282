"""Pull answers: what the answer to a pull says besides its messages.

    if is_reset(reply): ...              # an operator has moved the group to another offset
    pause_ms(reply, asked, following)    # before the next pull; 0: send it at once

A queue's ends may move, too. A broker answers a pull behind the end of the queue with the end, and
a pull before the beginning with the beginning. All these answers have the code PULL_OFFSET_MOVED;
RocketMQ's brokers write the reason into the remark.
"""

from __future__ import annotations

from cext.client.reply import Reply
from rmq.codes import ResponseCode

RESET = "OFFSET_RESET"
SOON_US, SOON_PAUSE_MS = 5_000, 100  # a "nothing new" that came so soon, and the pause after it


def is_reset(reply: Reply) -> bool:
    """Whether an operator has moved the group: it goes on at the answer's offset, whatever it has
    read."""
    return reply.code == ResponseCode.PULL_OFFSET_MOVED and reply.remark == RESET


def pause_ms(reply: Reply, asked: int, following: int) -> int:
    """The pause before the next pull. An answer whose offset is the one that was asked for needs a
    pause, unless the broker has held the pull. For example a slave that lacks the beginning of a
    queue answers at once, and while its master is away there is no other broker to ask."""
    if following != asked:
        return 0
    was_held = reply.code == ResponseCode.PULL_NOT_FOUND and reply.waited_us >= SOON_US
    return 0 if was_held else SOON_PAUSE_MS
