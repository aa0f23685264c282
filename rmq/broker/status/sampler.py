"""Sampler: makes the Sample of this shard (rmq/observe/sample.py) from core, tables and /proc.

    sample = broker.sampler.take()

Samples are used by /metrics, by `rmq top` and `rmq broker status` (code 28 with the field
rmqDetail), and by the supervisor of several shards. The sampler reads counters directly; only the
table of topics comes from the reactor, a bounded number of topics per turn. Costly numbers are
cached: the page cache is looked at every 5 s at most, the oldest message only when the log's start
moves.

A sample has at most metricsOtelCardinalityLimit topics, and as many rows of lags, producers and
consumers; `left_out` counts the rest. take() never waits; take_all() also finds the ages of lags,
in a thread (consumer_lag.py).
"""

import asyncio
import os
from collections.abc import Iterable, Sized
from pathlib import Path
from typing import Protocol

from rmq import names
from rmq.base import clock
from rmq.base.build import build_text
from rmq.broker.clients.client import Client
from rmq.broker.clients.consumers import ConsumerGroup, ConsumerTable
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.core_seam import GroupCalls, LogCalls, OffsetCalls, StatCalls, TopicCalls
from rmq.broker.dispatch.response_times import ResponseTimes
from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.replication.replication import Replication
from rmq.broker.siblings import Siblings
from rmq.broker.status.consumer_lag import CoreTopics, Lag, LagTimes, lags
from rmq.broker.store.queue_reader import QueueReader
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks.retention import disk_ratio
from rmq.codes import VERSION_TEXT, version_name
from rmq.config import Settings
from rmq.observe.sample import (
    ClientSample,
    CreationSample,
    DeliverySample,
    RpcSample,
    Sample,
    TopicSample,
)

PAGE_CACHE_S = 5.0
PAGE_CACHE_FILES = 4  # newest files of the log; a GiB takes about a millisecond
MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class CoreCalls(GroupCalls, LogCalls, OffsetCalls, StatCalls, TopicCalls, Protocol):
    """What is used here of the core."""


class SamplerContext(Protocol):
    """What is used here of the broker."""

    commit_log_directory: Path
    consumers: ConsumerTable
    groups: GroupTable
    producers: ProducerTable
    queues: QueueReader
    reactor_watch: ReactorWatch
    replication: Replication
    response_times: ResponseTimes
    settings: Settings
    siblings: Siblings
    topics: TopicTable

    @property
    def core(self) -> CoreCalls: ...

    @property
    def address(self) -> str: ...

    def earliest_store_time(self) -> int: ...


class Sampler:
    """Owned by the control thread."""

    def __init__(self, context: SamplerContext) -> None:
        self._context = context
        self._began = clock.monotonic()
        self._page_cache = (0, -1, 0)
        self._page_cache_at = float("-inf")
        self._times = LagTimes(context.queues)
        self._oldest = (-1, -1)  # (start of the log, store time of the message there)

    def stop(self) -> None:
        """After this none of the sampler's threads calls the core."""
        self._times.stop()

    async def take_all(self) -> Sample:
        """The sample, with the ages of lags."""
        sample, rows = self._take()
        told = rows[: self._context.settings.metricsOtelCardinalityLimit]
        sample.lags_without_age = await asyncio.to_thread(self._times.fill, told, sample.now_ms)
        return sample

    def take(self, brief: bool = False) -> Sample:
        """The sample. `brief` leaves out the tables: topics, lags (except their sum) and
        clients."""
        return self._take(brief)[0]

    def _take(self, brief: bool = False) -> tuple[Sample, list[Lag]]:
        context, settings = self._context, self._context.settings
        counters = context.core.stats()
        process = os.times()
        sample = Sample(
            cluster=settings.brokerClusterName,
            broker=settings.brokerName,
            shard=context.siblings.index,
            address=context.address,
            version=VERSION_TEXT,
            build=build_text(),
            pid=os.getpid(),
            permission=settings.brokerPermission,
            state="running",
            now_ms=int(clock.wall() * 1000),
            uptime_ms=int((clock.monotonic() - self._began) * 1000),
            cpu_ms=int((process.user + process.system) * 1000),
            rss_bytes=_resident_bytes(),
            threads=_entries("/proc/self/task"),
            open_files=_entries("/proc/self/fd"),
            disk_ratio=disk_ratio(context.commit_log_directory),
            oldest_message_ms=self._oldest_message(counters),
            counters=counters,
            reactor_standing_s=context.reactor_watch.standing_s,
            pools=context.core.pools(),
            latencies=context.core.latencies(),
            steps=context.core.histograms(),
            sizes=context.core.message_sizes(),
            page_cache=self._cached(),
            groups=len(context.groups.all()),
        )
        if context.reactor_watch.is_slow:
            sample.state = "standing"
            return sample, []  # everything else needs the reactor
        sample.half_messages = half_messages(context.queues, counters)
        sample.timers_behind = self._timers_behind(counters)
        table = context.core.topic_table()
        groups = {name.encode() for name in context.groups.all()}
        rows = lags(table, context.core.offsets(), context.core.offsets(1), groups)
        sample.lag = sum(row.sample.messages for row in rows)
        if not brief:
            self._tables(sample, table, rows)
        if counters.get("poisoned"):
            sample.state = "poisoned"
        elif not counters.get("writable", 1) and not counters.get("slave"):
            sample.state = "full"
        context.replication.observe(sample)
        return sample, rows

    def _tables(self, sample: Sample, table: CoreTopics, behind: list[Lag]) -> None:
        context = self._context
        limit: int = context.settings.metricsOtelCardinalityLimit
        system = context.topics.is_system
        rows = []
        for key, (messages_in, bytes_in, messages_out, bytes_out, spans, more) in sorted(
            table.items()
        ):
            name = key.decode(errors="replace")
            if system(name) and messages_in == messages_out == 0:
                continue  # a dozen such topics exist from the start
            row = TopicSample(name, messages_in, bytes_in, messages_out, bytes_out, system(name))
            row.end = sum(span[1] for span in spans if span is not None)
            if any(more):
                row.numbers = more
            rows.append(row)
        deliveries = [
            DeliverySample(group.decode(errors="replace"), topic.decode(errors="replace"), *counts)
            for (group, topic), counts in sorted(context.core.deliveries().items())
        ]
        sample.deliveries = deliveries[:limit]
        sample.rpc = self._merged_times()
        sample.created = [
            CreationSample(what, done, times, is_system)
            for (what, done, is_system), times in context.response_times.created.items()
        ]
        producers = _clients(context.producers.groups().items())
        consumers = _consumers(context.consumers.groups())
        tables: tuple[Sized, ...] = (rows, behind, deliveries, producers, consumers)
        sample.left_out = sum(max(0, len(each) - limit) for each in tables)
        sample.topics = rows[:limit]
        sample.lags = [each.sample for each in behind[:limit]]
        sample.producers = _bounded(producers, limit)
        sample.consumers = _bounded(consumers, limit)

    def _merged_times(self) -> list[RpcSample]:
        """The times of the reactor and of the control thread, added up: both may answer a code."""
        found = {
            key: (list(counts), total)
            for key, (counts, total) in self._context.core.rpc_times().items()
        }
        for (code, response), (counts, total) in self._context.response_times.rows.items():
            before, sum_before = found.get((code, response, False), ([0] * len(counts), 0))
            both = [a + b for a, b in zip(before, counts, strict=True)]
            found[code, response, False] = (both, sum_before + total)
        return [RpcSample(*key, times) for key, times in sorted(found.items())]

    def _timers_behind(self, counters: dict[str, int]) -> int:
        if not counters.get("timers_ready"):
            return -1
        return max(0, self._context.queues.range(names.TIMER_TOPIC, 0)[1] - counters["timers_fed"])

    def _oldest_message(self, counters: dict[str, int]) -> int:
        first = self._context.core.log_range()[0]
        if self._oldest[0] != first or self._oldest[1] < 0:
            self._oldest = (first, self._context.earliest_store_time())
        return self._oldest[1]

    def _cached(self) -> tuple[int, int, int]:
        now = clock.monotonic()
        if now - self._page_cache_at >= PAGE_CACHE_S:
            self._page_cache_at = now
            self._page_cache = self._context.core.page_cache(PAGE_CACHE_FILES)
        return self._page_cache


def half_messages(queues: QueueReader, counters: dict[str, int]) -> int:
    """How many transactions are open; -1: the core does not say."""
    if "half_messages_first" not in counters:
        return -1
    end = queues.range(names.HALF_TOPIC, 0)[1]
    ahead = counters["half_messages_ended_out_of_order"]
    return max(0, end - counters["half_messages_first"] - ahead)


def _clients(groups: Iterable[tuple[str, Iterable[Client]]], mode: str = "") -> list[ClientSample]:
    """One row per group, language and version."""
    counts: dict[tuple[str, str, str], int] = {}
    for group, clients in groups:
        for client in clients:
            key = (group, client.language.lower(), version_name(client.version))
            counts[key] = counts.get(key, 0) + 1
    return [
        ClientSample(group, language, version, count, mode, names.is_system_group(group))
        for (group, language, version), count in sorted(counts.items())
    ]


def _bounded(rows: list[ClientSample], limit: int) -> list[ClientSample]:
    """The first `limit` rows; the others are added up without their groups, so that no connection
    is missing."""
    rest: dict[tuple[str, str, str, bool], int] = {}
    for row in rows[limit:]:
        key = (row.language, row.version, row.mode, row.is_system)
        rest[key] = rest.get(key, 0) + row.count
    return rows[:limit] + [
        ClientSample("", language, version, count, mode, is_system)
        for (language, version, mode, is_system), count in rest.items()
    ]


def _consumers(groups: Iterable[ConsumerGroup]) -> list[ClientSample]:
    rows = []
    for group in groups:
        mode = MODES.get(group.consume_type, "")
        rows += _clients([(group.name, group.clients.values())], mode)
    return rows


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _entries(path: str) -> int:
    return sum(1 for _ in Path(path).iterdir())
