"""Sample: everything one shard tells an operator at one moment, and its JSON form.

A shard makes one (rmq/broker/sampling.py) for /metrics, for `rmq top` and `rmq broker status`, and
for whoever adds the shards of a machine up. Counters grow from the start of the process on; rates
are the difference of two samples by the difference of their `uptime_ms`.

    {"broker":"broker-a","shard":0,"counters":{"messages_in":1200,..},
     "pools":{"reply":[16384,5120,0,17,0]},"latencies":{"append":[[0,3,..],1234]},..}

Fields may be added; a reader takes what it knows and the default for what is missing, so that the
shards of one machine may be of two versions for a while.
"""

from __future__ import annotations

from typing import Any

import msgspec


class TopicSample(msgspec.Struct):
    """Counters of one topic since the start."""

    name: str
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    is_system: bool = False


class LagSample(msgspec.Struct):
    """How far a group is behind in a topic, summed over the queues of this shard."""

    group: str
    topic: str
    messages: int  # above what is committed
    inflight: int = 0  # of these handed out already
    ready: int = 0  # and those that are not
    latency_ms: int = -1  # age of the oldest above what is committed; -1 not known
    queueing_ms: int = -1  # age of the oldest that was not handed out; -1 not known


class ClientSample(msgspec.Struct):
    """How many connections of one kind there are."""

    group: str
    language: str
    version: str
    count: int = 0
    mode: str = ""  # of consumers: push or pull; empty of producers
    is_system: bool = False


class Sample(msgspec.Struct):
    """One shard at one moment."""

    cluster: str = ""
    broker: str = ""
    shard: int = 0
    address: str = ""
    version: str = ""
    pid: int = 0
    permission: int = 0
    state: str = "running"
    uptime_ms: int = 0
    now_ms: int = 0  # wall clock
    cpu_ms: int = 0  # user and system time of the process
    rss_bytes: int = 0
    threads: int = 0
    open_files: int = 0
    disk_ratio: float = -1.0  # of the file system that holds the log
    oldest_message_ms: int = -1
    counters: dict[str, int] = {}  # ShardCore.stats()
    # pool: buffer bytes, buffers, in use, most ever in use, refusals
    pools: dict[str, tuple[int, int, int, int, int]] = {}
    latencies: dict[str, tuple[list[int], int]] = {}  # counts per bucket, sum in us
    page_cache: tuple[int, int, int] = (0, -1, 0)  # resident, dirty (-1 unknown), looked at
    groups: int = 0
    topics: list[TopicSample] = []
    lags: list[LagSample] = []
    producers: list[ClientSample] = []
    consumers: list[ClientSample] = []
    sizes: list[int] = []  # stored messages of less than 2 ** index bytes, from half of that on
    half_messages: int = -1  # transactions open; -1 not known
    lag: int = 0  # messages of all lags, those left out too
    left_out: int = 0  # topics and lags beyond the limit


def encode(sample: Sample) -> bytes:
    return msgspec.json.encode(sample)


def decode(data: bytes | str) -> Sample:
    """The sample; msgspec.DecodeError (a ValueError) when it is none."""
    return msgspec.json.decode(data, type=Sample)


def as_dict(sample: Sample) -> dict[str, Any]:
    """Plain values, for JSON output."""
    plain = msgspec.to_builtins(sample)
    assert isinstance(plain, dict)
    return plain
