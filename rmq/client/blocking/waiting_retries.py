"""WaitingRetries: messages that consumers sent back and whose delay is not over, of each group.

    found = waiting_retries(cluster)
    found.of("billing"), found.is_exact         messages; False: at least as many

A message that is sent back lies in SCHEDULE_TOPIC_XXXX until its delay is over, and only then in
the retry topic of its group, which its property REAL_TOPIC names. No broker counts what waits by
groups, so it is read: of each delay level from the place up to which it was delivered, which
brokers tell, to its end. Where brokers filter by SQL92, messages that were sent with a delay do not
come over the network. There may be millions of them, so the reading ends after LOOK_S; the levels
at which least waits are read first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rmq.base import clock
from rmq.client.blocking.admin import QueueRange, runtime_info
from rmq.client.blocking.cluster import BrokerEntry, ClusterView
from rmq.client.blocking.partial import Missing, left_out, of_masters
from rmq.client.blocking.reads import Read, read
from rmq.codes import ResponseCode
from rmq.errors import RemoteError
from rmq.format.fastjson import MessageQueue
from rmq.names import SCHEDULE_TOPIC, is_retry, retry_topic

LOOK_S = 2.0
LEVEL = "scheduleMessageOffset_"  # prefix of keys of the runtime table: "delivered up to,end"
SENT_BACK = "RETRY_TOPIC IS NOT NULL"


@dataclass(frozen=True)
class WaitingRetries:
    """`by_topic`: the messages by retry topic; None: the account may not look."""

    by_topic: Mapping[str, int] | None
    is_exact: bool

    def of(self, group: str) -> int | None:
        """The messages that will come to this group; None: not known."""
        return None if self.by_topic is None else self.by_topic.get(retry_topic(group), 0)


def waiting_retries(
    cluster: ClusterView, missing: Missing | None = None, look_s: float = LOOK_S
) -> WaitingRetries:
    """Those of all masters; missing: see partial.py."""
    try:
        parts = of_masters(cluster, lambda broker: levels(cluster, broker), missing)
        look = _Look(cluster, clock.monotonic() + look_s)
        waiting = [each for part in parts for each in part]
        for each in sorted(waiting, key=lambda each: each.max_offset - each.min_offset):
            with left_out(missing, each.queue.broker_name):
                look.through(each)
    except RemoteError as error:
        if error.code != ResponseCode.NO_PERMISSION:
            raise
        return WaitingRetries(None, False)
    return WaitingRetries(look.found, look.is_exact and not missing)


def levels(cluster: ClusterView, broker: BrokerEntry) -> list[QueueRange]:
    """The messages that wait at each delay level of a broker, in its queue of the level."""
    found = []
    for key, value in runtime_info(cluster, broker).items():
        level, (delivered, _, end) = key.removeprefix(LEVEL), value.partition(",")
        if not key.startswith(LEVEL) or not all(map(str.isdecimal, (level, delivered, end))):
            continue
        if int(delivered) < int(end):
            queue = MessageQueue(SCHEDULE_TOPIC, broker.name, int(level) - 1)
            found.append(QueueRange(queue, int(delivered), int(end), 0))
    return found


class _Look:
    """Counts by retry topic, until a moment of clock.monotonic()."""

    def __init__(self, cluster: ClusterView, until: float) -> None:
        self._cluster = cluster
        self._until = until
        self._refusing: set[str] = set()  # brokers that do not filter by SQL92
        self.found: Counter[str] = Counter()
        self.is_exact = True

    def through(self, level: QueueRange) -> None:
        at = level.min_offset
        while at < level.max_offset:
            if clock.monotonic() >= self._until:
                self.is_exact = False
                return
            part = self._read(level.queue, at)
            for message in part.messages:
                topic = message.properties.get("REAL_TOPIC", "")
                if message.stored.queue_offset < level.max_offset and is_retry(topic):
                    self.found[topic] += 1
            if part.next_offset <= at:
                self.is_exact = False  # the broker has more, and gives nothing
                return
            at = part.next_offset

    def _read(self, queue: MessageQueue, at: int) -> Read:
        if queue.broker_name not in self._refusing:
            try:
                return read(self._cluster, queue, at, sql=SENT_BACK)
            except RemoteError as error:
                if error.code == ResponseCode.NO_PERMISSION:
                    raise
                self._refusing.add(queue.broker_name)
        return read(self._cluster, queue, at)
