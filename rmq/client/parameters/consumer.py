"""Parameters of the consumers, with RocketMQ's defaults, ranges and meanings.

    PushConsumer("billing", listener, consume_message_batch_max_size=32, consume_thread_min=4)

Parameters of two kinds of consumers are in a class between; the page shows them with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmq.client.parameters.base import ClientParameters, P, check_choice, parameter
from rmq.errors import ConfigError

FROM_WHERE = (
    "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"
)  # fmt: skip
CLUSTERING, BROADCASTING = "CLUSTERING", "BROADCASTING"
MODELS = (CLUSTERING, BROADCASTING)
MAX_RECONSUME_TIMES = 16
# RocketMQ refuses to start with values outside these; -1 is "unset" for those that may be unset.
RANGES = {
    "consume_thread_min": (1, 1_000), "consume_thread_max": (1, 1_000),
    "consume_concurrently_max_span": (1, 65_535), "pull_threshold_for_queue": (1, 65_535),
    "pull_threshold_for_topic": (1, 6_553_500), "pull_threshold_size_for_queue": (1, 1_024),
    "pull_threshold_size_for_topic": (1, 102_400), "pull_interval": (0, 65_535),
    "consume_message_batch_max_size": (1, 1_024), "pull_batch_size": (1, 1_024),
}  # fmt: skip
POP_RANGES = {"pop_invisible_time": (5_000, 300_000), "pop_batch_nums": (1, 32)}


@dataclass(kw_only=True)
class GroupParameters(ClientParameters):
    """Parameters of every member of a consumer group."""

    consumer_group: str = parameter(
        "DEFAULT_CONSUMER", "consumers that share the queues of the topics they subscribe, and "
        "their offsets",
    )  # fmt: skip
    consume_from_where: str = parameter(
        "CONSUME_FROM_LAST_OFFSET", "where a group begins in a queue it never committed: "
        "CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET or CONSUME_FROM_TIMESTAMP. As with "
        "all clients, brokers that still hold the first message send new groups there",
    )  # fmt: skip

    def check(self) -> None:
        super().check()
        check_choice("consume_from_where", self.consume_from_where, FROM_WHERE)


@dataclass(kw_only=True)
class RebalanceParameters(GroupParameters):
    """Parameters of consumers that share queues and pull from them."""

    message_model: str = parameter(
        CLUSTERING, "CLUSTERING: each message goes to one member of the group; BROADCASTING: to "
        "all, offsets are kept in a file, and nothing is tried again",
    )  # fmt: skip
    consume_timestamp: int | None = parameter(
        None, "the time of CONSUME_FROM_TIMESTAMP, ms since 1970; unset: half an hour ago"
    )
    allocate_message_queue_strategy: Any = parameter(
        None, "who of the group reads which queue: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, or a "
        "strategy of rmq.client.allocation; unset: AVG. All members must have the same",
    )  # fmt: skip
    message_queue_listener: Any = parameter(
        None, "called as f(topic, all_queues, own_queues) when the own queues have changed"
    )
    offset_store: Any = parameter(
        None, "where offsets are kept instead of brokers or the file: load, read, persist"
    )
    local_offset_store_dir: str | None = parameter(
        None, "folder of the files of broadcasting consumers; unset: ~/.rocketmq_offsets",
        "rocketmq.client.localOffsetStoreDir",
    )  # fmt: skip
    pull_threshold_for_queue: int = parameter(1_000, "messages pulled ahead of one queue")
    pull_threshold_size_for_queue: int = parameter(100, "their size in MiB")

    def check(self) -> None:
        super().check()
        check_choice("message_model", self.message_model, MODELS)
        when = self.consume_timestamp
        # Java's form, 20260131120000, would be a time in the far future: all messages would be
        # skipped.
        if when is not None and (not isinstance(when, int) or isinstance(when, bool) or when < 0):
            raise ConfigError(f"consume_timestamp={when!r}: milliseconds since 1970 are wanted")


@dataclass(kw_only=True)
class PoppingParameters(GroupParameters):
    """Parameters of consumers that may pop."""

    consume_orderly: bool = parameter(
        False, "one batch of a queue at a time, in the queue's order, by one member of the group; "
        "in Java the listener's type says it, or the field order of a pop",
    )  # fmt: skip
    pop_invisible_time: int = parameter(
        60_000, "how long a popped message is nobody else's; 5000 to 300000"
    )
    pop_batch_nums: int = parameter(32, "messages of one pop, at most 32")

    def check(self) -> None:
        super().check()
        for name, (least, most) in POP_RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ConfigError(f"{name}={getattr(self, name)}: {least} to {most}")


@dataclass(kw_only=True)
class PushConsumerParameters(RebalanceParameters, PoppingParameters):
    """Of PushConsumer."""

    message_listener: Any = parameter(
        None, "called as listener(messages, context), or an object with consume_message"
    )
    subscription: Mapping[str, str] | None = parameter(
        None, "topics and their tags, as subscribe() would take them"
    )
    consume_thread_min: int = parameter(20, "threads that call the listener")
    consume_thread_max: int = parameter(
        20, "their number after consumer.update_core_pool_size(), at most; given alone, one of the "
        "two takes the other one with it",
    )  # fmt: skip
    adjust_thread_pool_nums_threshold: int = parameter(
        100_000, "accepted without effect, as in RocketMQ"
    )
    consume_message_batch_max_size: int = parameter(
        1, "messages of one call of the listener, at most; they come from one pull"
    )
    consume_timeout: int = parameter(
        15,
        "minutes, and at most twice as many, after which a message whose listener has not "
        "returned is sent back",
    )
    consume_concurrently_max_span: int = parameter(
        2_000, "distance of the offsets of the first message not dealt with and the last pulled "
        "ahead of one queue",
    )  # fmt: skip
    pull_threshold_for_topic: int = parameter(
        -1, "messages pulled ahead, shared out to the queues of this consumer; -1: no limit"
    )
    pull_threshold_size_for_topic: int = parameter(-1, "their size in MiB; -1: no limit")
    pull_interval: int = parameter(0, "pause between two pulls of a queue")
    pull_batch_size: int = parameter(
        32, "messages of one pull; brokers give 32 at most unless they are set otherwise"
    )
    pull_batch_size_in_bytes: int = parameter(
        256 << 10, "bytes of one pull, for brokers that look at it"
    )
    post_subscription_when_pull: bool = parameter(
        False, "every pull says what is subscribed, not only the heartbeats"
    )
    max_reconsume_times: int = parameter(
        -1, "tries after which a message becomes a dead letter; -1: 16, without limit in order"
    )
    suspend_current_queue_time_millis: int = parameter(
        1_000, "pause of a queue in order before a message is tried again; 10 to 30000"
    )
    await_termination_millis_when_shutdown: int = parameter(
        0, "how long close() goes on with what was pulled already; calls of the listener that are "
        "under way are waited for in any case",
    )  # fmt: skip
    client_rebalance: bool = parameter(
        True,
        "members share out the queues by themselves; False: brokers do, and decide whether a "
        "topic is pulled or popped (setConsumeMode); not in order and not in broadcasting",
    )
    pop_threshold_for_queue: int = parameter(
        96, "messages of one queue that were popped and are not dealt with"
    )

    def changed(self: P, changes: Mapping[str, Any]) -> P:
        """If only one of the two numbers of threads is given, and contradicts the default of the
        other one, that is changed to it."""
        given = dict(changes)
        for name, other, nearest in (
            ("consume_thread_min", "consume_thread_max", max),
            ("consume_thread_max", "consume_thread_min", min),
        ):
            least, most = RANGES[name]
            count = changes.get(name)
            if isinstance(count, int) and least <= count <= most:
                given.setdefault(other, nearest(count, getattr(self, other)))
        return super().changed(given)

    def check(self) -> None:
        super().check()
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            unset = value == -1 and name.endswith("_for_topic")
            if not unset and not least <= value <= most:
                raise ConfigError(f"{name}={value}: {least} to {most}")
        if self.consume_thread_min > self.consume_thread_max:
            raise ConfigError(
                f"consume_thread_min={self.consume_thread_min} is more than "
                f"consume_thread_max={self.consume_thread_max}"
            )
        if self.max_reconsume_times < -1:
            raise ConfigError(f"max_reconsume_times={self.max_reconsume_times}: at least -1")


@dataclass(kw_only=True)
class PullConsumerParameters(RebalanceParameters):
    """Of PullConsumer."""

    auto_commit: bool = parameter(
        True, "poll tells brokers how far earlier polls came; close does so as well"
    )
    auto_commit_interval_millis: int = parameter(5_000, "how often; at least 1000")
    poll_timeout_millis: int = parameter(5_000, "how long poll waits when it is given no timeout")
    pull_batch_size: int = parameter(
        10, "messages of one pull; for more than 32 rmq's brokers give up to 512 KiB, others still "
        "32 unless they are set otherwise",
    )  # fmt: skip
    pull_threshold_for_all: int = parameter(10_000, "messages pulled ahead")
    consume_max_span: int = parameter(
        2_000, "distance of the offsets of the first and last message pulled ahead of one queue"
    )
    broker_suspend_max_time_millis: int = parameter(
        20_000, "how long brokers hold a pull for which there is nothing yet"
    )
    consumer_timeout_millis_when_suspend: int = parameter(
        30_000, "patience with a pull; more than broker_suspend_max_time_millis"
    )
    consumer_pull_timeout_millis: int = parameter(
        10_000, "accepted without effect: brokers hold every pull"
    )
    register_topics: tuple[str, ...] = parameter((), "topics that are subscribed at the start")
    pull_thread_nums: int = parameter(20, "accepted without effect: no thread waits for a pull")
    topic_metadata_check_interval_millis: int = parameter(
        30_000, "accepted; routes are read again every poll_name_server_interval"
    )

    def check(self) -> None:
        super().check()
        for name in ("pull_batch_size", "pull_threshold_for_all", "pull_threshold_for_queue",
                     "pull_threshold_size_for_queue"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: at least 1")
        if self.consumer_timeout_millis_when_suspend <= self.broker_suspend_max_time_millis:
            raise ConfigError(
                "consumer_timeout_millis_when_suspend="
                f"{self.consumer_timeout_millis_when_suspend} is not more than "
                f"broker_suspend_max_time_millis={self.broker_suspend_max_time_millis}: a pull "
                "that brokers hold for so long would end as late each time"
            )


@dataclass(kw_only=True)
class PopConsumerParameters(PoppingParameters):
    """Of PopConsumer."""

    poll_timeout_millis: int = parameter(5_000, "how long poll waits when it is given no timeout")
    consume_from_where: str = parameter(
        "CONSUME_FROM_LAST_OFFSET", "where a group begins that never popped: "
        "CONSUME_FROM_FIRST_OFFSET, or at the end with any other value",
    )  # fmt: skip
