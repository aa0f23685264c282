"""The parameters as keywords, for type checkers: `Producer("g", send_msg_timeout=1000)`.

Written by `python -m rmq.client.parameters keywords` from the classes beside it; a test compares
the two. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from rmq.client.parameters.hooks import RpcHook


class ClientKeywords(TypedDict, total=False):
    """What producers, consumers and Admin have in common."""

    namesrv_addr: str | None
    namesrv_file: str | None
    namesrv_http: str | None
    client_ip: str | None
    instance_name: str
    client_callback_executor_threads: int
    poll_name_server_interval: int
    heartbeat_broker_interval: int
    persist_consumer_offset_interval: int
    pull_time_delay_mills_when_exception: int
    unit_mode: bool
    unit_name: str | None
    namespace: str | None
    access_channel: str
    language: str
    vip_channel_enabled: bool
    use_tls: bool
    tls_ca_file: str | None
    tls_verify: bool
    tls_cert_file: str | None
    tls_key_file: str | None
    tls_key_password: str | None
    mq_client_api_timeout: int
    decode_read_body: bool
    decode_decompress_body: bool
    socks_proxy_config: str
    detect_timeout: int
    detect_interval: int
    start_detector_enable: bool
    send_latency_enable: bool
    enable_stream_request_type: bool
    enable_heartbeat_channel_event_listener: bool
    enable_concurrent_heartbeat: bool
    concurrent_heartbeat_thread_pool_size: int
    enable_trace: bool
    trace_topic: str | None
    trace_msg_batch_num: int
    max_page_size_in_get_metadata: int
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    rpc_hook: RpcHook | None


class ProducerKeywords(ClientKeywords, total=False):
    """Of Producer and TransactionProducer."""

    topics: tuple[str, ...]
    create_topic_key: str
    default_topic_queue_nums: int
    send_msg_timeout: int
    send_msg_max_timeout_per_request: int
    compress_msg_body_over_howmuch: int
    compress_level: int
    compress_type: str
    retry_times_when_send_failed: int
    retry_times_when_send_async_failed: int
    retry_another_broker_when_not_store_ok: bool
    max_message_size: int
    auto_batch: bool
    batch_max_delay_ms: int
    batch_max_bytes: int
    total_batch_max_bytes: int
    enable_backpressure_for_async_mode: bool
    back_pressure_for_async_send_num: int
    back_pressure_for_async_send_size: int


class TransactionProducerKeywords(ProducerKeywords, total=False):
    """Of TransactionProducer."""

    transaction_check_listener: Any
    check_thread_pool_min_size: int
    check_thread_pool_max_size: int
    check_request_hold_max: int


class PushConsumerKeywords(ClientKeywords, total=False):
    """Of PushConsumer."""

    consume_from_where: str
    consume_orderly: bool
    pop_invisible_time: int
    pop_batch_nums: int
    message_model: str
    consume_timestamp: int | None
    allocate_message_queue_strategy: Any
    message_queue_listener: Any
    offset_store: Any
    local_offset_store_dir: str | None
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    subscription: Mapping[str, str] | None
    consume_thread_min: int
    consume_thread_max: int
    adjust_thread_pool_nums_threshold: int
    consume_message_batch_max_size: int
    consume_timeout: int
    consume_concurrently_max_span: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    pull_interval: int
    pull_batch_size: int
    pull_batch_size_in_bytes: int
    post_subscription_when_pull: bool
    max_reconsume_times: int
    suspend_current_queue_time_millis: int
    await_termination_millis_when_shutdown: int
    client_rebalance: bool
    pop_threshold_for_queue: int


class PullConsumerKeywords(ClientKeywords, total=False):
    """Of PullConsumer."""

    consume_from_where: str
    message_model: str
    consume_timestamp: int | None
    allocate_message_queue_strategy: Any
    message_queue_listener: Any
    offset_store: Any
    local_offset_store_dir: str | None
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    auto_commit: bool
    auto_commit_interval_millis: int
    poll_timeout_millis: int
    pull_batch_size: int
    pull_threshold_for_all: int
    consume_max_span: int
    broker_suspend_max_time_millis: int
    consumer_timeout_millis_when_suspend: int
    consumer_pull_timeout_millis: int
    register_topics: tuple[str, ...]
    pull_thread_nums: int
    topic_metadata_check_interval_millis: int


class PopConsumerKeywords(ClientKeywords, total=False):
    """Of PopConsumer."""

    consume_from_where: str
    consume_orderly: bool
    pop_invisible_time: int
    pop_batch_nums: int
    poll_timeout_millis: int
