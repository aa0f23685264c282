"""Parameters of Producer and TransactionProducer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmq.client.parameters.base import ClientParameters, parameter
from rmq.names import AUTO_CREATE_TOPIC


@dataclass(kw_only=True)
class ProducerParameters(ClientParameters):
    """Of Producer and TransactionProducer."""

    producer_group: str = parameter(
        "DEFAULT_PRODUCER", "producers that send the same kind of messages; brokers ask any of "
        "them about an open transaction",
    )  # fmt: skip
    topics: tuple[str, ...] = parameter((), "topics whose route is read at the start")
    create_topic_key: str = parameter(
        AUTO_CREATE_TOPIC, "topic whose settings an automatically created one takes"
    )
    default_topic_queue_nums: int = parameter(4, "queues of an automatically created topic")
    send_msg_timeout: int = parameter(3_000, "time for a send with all its retries")
    send_msg_max_timeout_per_request: int = parameter(
        -1, "time for one try; -1: what is left of send_msg_timeout"
    )
    compress_msg_body_over_howmuch: int = parameter(4_096, "bodies of this size on are packed")
    compress_level: int = parameter(5, "1 fast .. 9 small")
    compress_type: str = parameter("ZLIB", "ZLIB, LZ4 or ZSTD; clients before 4.9.4 read ZLIB only")
    retry_times_when_send_failed: int = parameter(
        2,
        "further tries of send, on other brokers; where there is none, its next master is waited "
        "for, for a second at most",
    )
    retry_times_when_send_async_failed: int = parameter(
        2, "further tries of send_async, on other brokers, or as those of send"
    )
    retry_another_broker_when_not_store_ok: bool = parameter(
        False, "try another broker when one stored it but not as safely as wished",
        "retryAnotherBrokerWhenNotStoreOK",
    )  # fmt: skip
    max_message_size: int = parameter(4 << 20, "of one body, or one batch")
    auto_batch: bool = parameter(False, "gather asynchronous sends of a topic into batches")
    batch_max_delay_ms: int = parameter(-1, "a batch waits so long for more; -1: 10")
    batch_max_bytes: int = parameter(-1, "a batch is sent at this size; -1: 32768")
    total_batch_max_bytes: int = parameter(-1, "of all batches under way; -1: 32 MiB")
    enable_backpressure_for_async_mode: bool = parameter(
        False, "send_async waits while as much as the next two say is under way; otherwise the "
        "limits are 65535 messages and 100 MiB",
    )  # fmt: skip
    back_pressure_for_async_send_num: int = parameter(1_024, "messages under way")
    back_pressure_for_async_send_size: int = parameter(
        100 << 20, "bytes under way; send_oneway waits while as many are to be sent to a broker"
    )


@dataclass(kw_only=True)
class TransactionProducerParameters(ProducerParameters):
    """Of TransactionProducer."""

    transaction_listener: Any = parameter(
        None, "executes local transactions and answers checks"
    )  # fmt: skip
    transaction_check_listener: Any = parameter(
        None, "the same by its name of old; counts while transaction_listener is unset"
    )
    check_thread_pool_min_size: int = parameter(1, "threads that answer checks")
    check_thread_pool_max_size: int = parameter(1, "threads that answer checks, at most")
    check_request_hold_max: int = parameter(2_000, "checks that wait; more are dropped")
