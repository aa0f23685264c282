"""Setting: what the clients of a round have in common: names of topics and groups, and parameters
with which they notice soon that something has changed."""

from __future__ import annotations

import random
import threading
from typing import Any, NamedTuple

from tests.ha.history import Writer

BROKER_NAME = "ha-a"
PLAIN, ORDERED, DELAYED, TIMED, TRANSACTED = (
    "ha-plain", "ha-ordered", "ha-delayed", "ha-timed", "ha-transacted",
)  # fmt: skip
TOPICS = {PLAIN: 4, ORDERED: 2, DELAYED: 2, TIMED: 2, TRANSACTED: 2}  # queues
MADE = "ha-made-"  # how the names of topics begin that clients make
LATER = (DELAYED, TIMED, TRANSACTED)
KEYS = [f"key-{number}" for number in range(8)]
PULL = "ha-pull"  # the group of the pull reader, which an operator resets
COMMITS, RESETS = "ha-commits", "ha-resets"  # groups that only keepers move
PAUSE_S = 0.003  # between two sends
BATCH_MOST, BATCH_PAUSE_S = 8, 0.05  # messages of a batch; between two batches
WORK_S = 0.01  # of a listener in order, at most
QUICK: dict[str, Any] = {
    "poll_name_server_interval": 1000,
    "heartbeat_broker_interval": 1000,
    "mq_client_api_timeout": 2000,
}
FIRST: dict[str, Any] = {
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
    "persist_consumer_offset_interval": 500,
}


class Setting(NamedTuple):
    """What each client has."""

    name: str
    namesrv: str
    history: Writer
    random: random.Random
    resting: threading.Event  # nothing more is sent
    closing: threading.Event  # consumers end
