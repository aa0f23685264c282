"""The arguments of read_table and its siblings as keywords, for type checkers.

A test compares them with the table of options. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

Moment = datetime | int
Span = timedelta | int | str


class ServerKeywords(TypedDict, total=False):
    """Keywords of reads from brokers and of writes: how servers are reached."""

    namesrv_addr: str | None
    poll_timeout_ms: Span
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    use_tls: bool
    tls_ca_file: str | None
    tls_verify: bool
    tls_cert_file: str | None
    tls_key_file: str | None
    tls_key_password: str | None


class CommonKeywords(TypedDict, total=False):
    """Keywords of reads from brokers and from files."""

    subscribe_pattern: str | None
    assign: Mapping[str, Any] | str | None
    starting_offsets: Mapping[str, Any] | str | None
    starting_timestamp: Moment | None
    ending_offsets: Mapping[str, Any] | str | None
    ending_timestamp: Moment | None
    tags: Iterable[str] | str | None
    columns: Iterable[str] | str | None
    include_body: bool
    include_properties: bool
    include_headers: bool
    schema: Literal["rmq", "kafka"]
    mode: Literal["failfast", "permissive", "dropmalformed"]
    fail_on_data_loss: bool
    batch_bytes: int | str
    batch_rows: int
    max_unpacked_bytes: int | str


class ReadKeywords(ServerKeywords, CommonKeywords, total=False):
    """Keywords of reads from brokers."""

    starting_offsets_by_timestamp: Mapping[str, Any] | str | None
    starting_offsets_by_timestamp_strategy: Literal["error", "latest"]
    ending_offsets_by_timestamp: Mapping[str, Any] | str | None
    group: str | None
    sql: str | None
    fetch_bytes: int | str
    plan_timeout_ms: Span
    fetch_offset_num_retries: int
    fetch_offset_retry_interval_ms: Span


class ScanKeywords(CommonKeywords, total=False):
    """Keywords of reads from the files of a store."""

    broker_name: str | None


class WriteKeywords(ServerKeywords, total=False):
    """Keywords of writes."""

    producer_group: str
    schema: Literal["rmq", "kafka"]
    batch_send_bytes: int | str
    send_timeout_ms: Span
    send_retries: int
    id_prefix: str | None
