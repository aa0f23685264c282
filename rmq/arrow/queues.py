"""Queues: what brokers know about the queues to be read: which exist, ends, offsets by time.

    view = Queues(options)
    view.find() -> {QueueKey: Ends(first, last)}
    view.slaves                         brokers whose slave answered find(), and may be behind
    view.resolve(bound, ends) -> {QueueKey: offset}

Used where plans are made, by one thread. Times, groups and sizes are asked for each queue by
itself, with many questions to a broker under way, and never for a queue that has had no message.

A question that nobody answers is put again, after a fresh look at the name server: first
fetchOffset.numRetries times in quick succession, then for planTimeoutMs (a stream that runs:
pollTimeoutMs). So a plan outlives the restart of a broker, or of a name server that does not know
its brokers yet. A topic that is unknown while brokers are registered is an error at once.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from rmq import names
from rmq.arrow.access import Access, GuardedCluster
from rmq.arrow.offsets import EARLIEST, LATEST, Bound, QueueKey, parse_assign
from rmq.arrow.options import OptionError, Options
from rmq.client.blocking.admin import topic_queues
from rmq.client.blocking.cluster import GONE_S
from rmq.client.connection.replicas import Purpose, Replicas
from rmq.codes import FLAG_SUBSCRIPTION, RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError, UnreachableError
from rmq.format.message import decode_messages
from rmq.format.remoting import Command

log = logging.getLogger("rmq.arrow")
SYSTEM_PREFIXES = (names.RETRY_PREFIX, names.DLQ_PREFIX, names.OLD_SYSTEM_TOPIC_PREFIX, "%SYS%")
PULL_GROUP = names.TOOLS_CONSUMER_GROUP  # every broker has it
PARTITIONS_PER_BROKER = 65536  # part of what users store; more than TOPIC_QUEUES_MAX
SAMPLE = 16  # messages by which the size of the others is estimated
BROKER_UNKNOWN = ResponseCode.BROKER_NOT_EXIST  # the client knows no address of the broker
# Brokers that start, stop or are too busy give the first two; the last is the client's own.
AWAY = {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, BROKER_UNKNOWN}
FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
AT_ONCE = 64  # queues that are asked about in one go
SAMPLED_AT_ONCE = 16  # fewer, as the replies hold messages, which may be large
Answer = TypeVar("Answer")


class DataLossError(RmqError):
    """Messages that should be read are not there; failOnDataLoss=false goes on without them."""


class Ends(NamedTuple):
    """Offsets of one queue: `first` up to, not including, `last`."""

    first: int
    last: int


def is_system(topic: str) -> bool:
    return names.is_system(topic) or topic.startswith(SYSTEM_PREFIXES)


class Queues:
    """The view of one read; close() when done."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._access = Access.of(options)
        self._cluster: GuardedCluster | None = None
        self._replicas = Replicas(GONE_S)
        self._assigned = parse_assign(options.assign) if options.assign is not None else None
        self.patience_ms = int(options.plan_timeout_ms)
        self.slaves: frozenset[str] = frozenset()

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def ask(self, question: Callable[[GuardedCluster], Answer]) -> Answer:
        """The answer. While brokers are away the question is put again, until time is over."""
        retries = self._options.fetch_offset_num_retries
        began, attempts, pause = time.monotonic(), 0, FIRST_PAUSE
        while True:
            if self._cluster is None:
                self._cluster = self._access.cluster(self._replicas)
            try:
                return question(self._cluster)
            except (UnreachableError, RemoteError) as error:
                if isinstance(error, RemoteError) and error.code not in AWAY:
                    raise
                self.close()
                attempts += 1
                if attempts <= retries:
                    time.sleep(self._options.fetch_offset_retry_interval_ms / 1000)
                    continue
                if (time.monotonic() - began) * 1000 >= self.patience_ms:
                    raise
                log.warning("waiting for brokers: %s", error)
                time.sleep(min(pause, self.patience_ms / 1000))
                pause = min(pause * 2, LAST_PAUSE)

    def ask_each(
        self,
        code: int,
        fields: Mapping[QueueKey, Mapping[str, Any]],
        read: Callable[[Command], Answer],
        at_once: int = AT_ONCE,
    ) -> dict[QueueKey, Answer]:
        """Asks about each queue, and returns what `read` makes of the answers. `read` gets answers
        with any code but those in AWAY.

        `at_once` queues are one question for `ask`. When it is put again, queues with an answer are
        left out.
        """
        found: dict[QueueKey, Answer] = {}

        def question(cluster: GuardedCluster, some: Iterable[QueueKey]) -> None:
            keys = [key for key in some if key not in found]
            away = None
            replies = cluster.ask_all(keys[0].broker, code, [fields[key] for key in keys])
            for key, reply in zip(keys, replies, strict=True):
                if reply.code in AWAY:
                    away = RemoteError(reply.code, reply.remark or "no reason given")
                else:
                    found[key] = read(reply)
            if away is not None:
                raise away

        for name in dict.fromkeys(key.broker for key in fields):
            mine = [key for key in fields if key.broker == name]
            for at in range(0, len(mine), at_once):
                self.ask(partial(question, some=mine[at : at + at_once]))
        return {key: found[key] for key in fields}

    def topics(self, cluster: GuardedCluster) -> list[str]:
        """The topics that are read; with a pattern those that exist now."""
        if self._assigned is not None:
            return sorted(self._assigned)
        if self._options.subscribe_pattern is None:
            return sorted(set(self._options.topics))
        cluster.some_broker()  # raises without brokers, as then there are no topics: ask() waits
        pattern = re.compile(self._options.subscribe_pattern)
        return [name for name in cluster.topics()
                if pattern.fullmatch(name) and not is_system(name)]  # fmt: skip

    def find(self, gone: Iterable[str] = ()) -> dict[QueueKey, Ends]:
        """All queues to be read. A missing topic is an error, unless it is in `gone`."""
        return self.ask(partial(self._find, gone=frozenset(gone)))

    def _find(self, cluster: GuardedCluster, gone: frozenset[str]) -> dict[QueueKey, Ends]:
        found: dict[QueueKey, Ends] = {}
        slaves: set[str] = set()
        for topic in self.topics(cluster):
            rows = cluster.if_known(partial(topic_queues, cluster, topic))
            if rows is None:
                if topic in gone or self._options.subscribe_pattern is not None:
                    continue
                raise OptionError(
                    f"topic {topic} does not exist at {self._options.nameserver}:"
                    f" create it (rmq topic create {topic}) or correct the option"
                )
            brokers = {row.queue.broker_name for row in rows}
            slaves |= {name for name in brokers if cluster.is_of_slave(name)}
            for row in rows:
                key = QueueKey(topic, row.queue.broker_name, row.queue.queue_id)
                if self._wanted(key, brokers):
                    found[key] = Ends(row.min_offset, row.max_offset)
        self._check_assigned(found, cluster)
        self.slaves = frozenset(slaves)
        return found

    def _wanted(self, key: QueueKey, brokers: set[str]) -> bool:
        if self._assigned is None:
            return True
        chosen = self._assigned.get(key.topic, {})
        alone = chosen.get("", set()) if len(brokers) == 1 else set()
        if "" in chosen and len(brokers) > 1:
            raise OptionError(
                f"option assign: topic {key.topic} is on {', '.join(sorted(brokers))}: name them"
            )
        return key.queue_id in chosen.get(key.broker, set()) | alone

    def _check_assigned(self, found: Mapping[QueueKey, Ends], cluster: GuardedCluster) -> None:
        for topic, brokers in (self._assigned or {}).items():
            for broker, ids in brokers.items():
                there = {key.queue_id for key in found
                         if key.topic == topic and broker in ("", key.broker)}  # fmt: skip
                if ids - there and self._options.fail_on_data_loss:
                    if broker and broker not in {each.name for each in cluster.brokers()}:
                        raise UnreachableError(f"option assign: {broker} is not registered")
                    raise OptionError(
                        f"option assign: topic {topic} has no queue {min(ids - there)}"
                        + (f" on {broker}" if broker else "")
                    )

    def resolve(self, bound: Bound, ends: Mapping[QueueKey, Ends]) -> dict[QueueKey, int]:
        """The offset at which the bound is, for every queue."""
        self._check_named(bound, ends)
        if bound.kind == "group":
            return self._committed(ends)
        times = {key: time for key in ends if (time := bound.time_of(key)) is not None}
        found = self._at_times(bound, ends, times)
        return {key: found[key] if key in found else self._offset(bound, key, each)
                for key, each in ends.items()}  # fmt: skip

    def _check_named(self, bound: Bound, ends: Mapping[QueueKey, Ends]) -> None:
        for key in bound.values:
            fitting = {each.broker for each in ends
                       if each.topic == key.topic and each.queue_id == key.queue_id
                       and key.broker in ("", each.broker)}  # fmt: skip
            if not fitting:
                where = f" on {key.broker}" if key.broker else ""
                raise OptionError(f"option {bound.option}: queue {key.queue_id} of topic"
                                  f" {key.topic}{where} is not among those read")  # fmt: skip
            if len(fitting) > 1:
                raise OptionError(f"option {bound.option}: topic {key.topic} is on"
                                  f" {', '.join(sorted(fitting))}: name them")  # fmt: skip

    def _offset(self, bound: Bound, key: QueueKey, ends: Ends) -> int:
        default = ends.first if bound.option.startswith("starting") else ends.last
        if bound.kind == "earliest":
            return ends.first
        if bound.kind == "latest":
            return ends.last
        value = bound.value(key)
        if value is None:
            return default
        if value in (EARLIEST, LATEST):
            return ends.first if value == EARLIEST else ends.last
        return self._inside(f"option {bound.option}", key, ends, value)

    def _inside(self, who: str, key: QueueKey, ends: Ends, value: int) -> int:
        if ends.first <= value <= ends.last:
            return value
        text = (f"{who}: offset {value} of {describe(key)} is not there,"
                f" it has {ends.first} to {ends.last}")  # fmt: skip
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{text}; failOnDataLoss=false takes the nearest")
        log.warning("%s; the nearest is taken", text)
        return min(max(value, ends.first), ends.last)

    def _committed(self, ends: Mapping[QueueKey, Ends]) -> dict[QueueKey, int]:
        """The group's offsets, also in queues that are empty now: what it had not read may have
        expired."""
        group = self._options.group
        found = {key: each.last for key, each in ends.items()}
        fields = {
            key: {"consumerGroup": group, "topic": key.topic, "queueId": key.queue_id}
            for key, each in ends.items()
            if each.last
        }
        offsets = self.ask_each(RequestCode.QUERY_CONSUMER_OFFSET, fields, _committed_in)
        for key, offset in offsets.items():
            if offset is None:
                found[key] = ends[key].first
            elif key.broker in self.slaves:  # which may lack either end: readers ask the master
                found[key] = min(offset, ends[key].last)
            else:
                found[key] = self._inside(f"group {group}", key, ends[key], offset)
        return found

    def _at_times(
        self, bound: Bound, ends: Mapping[QueueKey, Ends], times: Mapping[QueueKey, int]
    ) -> dict[QueueKey, int]:
        """For each queue in `times` the first offset that was stored at that time or later."""
        found = {key: ends[key].last for key in times}
        fields = {
            key: {"topic": key.topic, "queueId": key.queue_id, "timestamp": time_ms}
            for key, time_ms in times.items()
            if ends[key].first < ends[key].last
        }
        offsets = self.ask_each(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields, _offset_in)
        found |= {key: _clamped(offset, ends[key]) for key, offset in offsets.items()}
        # Brokers answer the last message's offset even if it is older: its time is looked at.
        doubtful = {key: ends[key].last - 1 for key in fields if found[key] >= ends[key].last - 1}
        for key, sample in self.samples(doubtful, 1).items():
            if not sample or sample[0][1] >= times[key]:
                continue
            if bound.strict and bound.option.startswith("starting"):
                raise OptionError(
                    f"option {bound.option}: {describe(key)} has nothing stored at {times[key]} or"
                    " later; startingOffsetsByTimestampStrategy=latest starts at its end"
                )
            found[key] = ends[key].last
        return found

    def first_at(self, keys: Iterable[QueueKey], time_ms: int) -> dict[QueueKey, int]:
        """For each queue the first offset stored at that time or later; its end: there is none."""
        fields = {key: {"topic": key.topic, "queueId": key.queue_id} for key in keys}
        firsts = self.ask_each(RequestCode.GET_MIN_OFFSET, fields, _offset_in)
        lasts = self.ask_each(RequestCode.GET_MAX_OFFSET, fields, _offset_in)
        ends = {key: Ends(firsts[key], lasts[key]) for key in fields}
        bound = Bound("time", time_ms=time_ms, strict=False)
        return self._at_times(bound, ends, dict.fromkeys(fields, time_ms))

    def samples(
        self, offsets: Mapping[QueueKey, int], count: int = SAMPLE
    ) -> dict[QueueKey, list[tuple[int, int]]]:
        """(bytes, stored ms) of some messages of each queue, from its offset on."""
        fields = {
            key: {
                "consumerGroup": PULL_GROUP, "topic": key.topic, "queueId": key.queue_id,
                "queueOffset": offset, "maxMsgNums": count, "sysFlag": FLAG_SUBSCRIPTION,
                "commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0, "subscription": "*",
                "expressionType": "TAG",
            }
            for key, offset in offsets.items()
        }  # fmt: skip
        return self.ask_each(RequestCode.PULL_MESSAGE, fields, _sizes_and_times, SAMPLED_AT_ONCE)

    def row_bytes(self, ranges: Mapping[QueueKey, tuple[int, int]]) -> dict[QueueKey, int]:
        """About how many bytes a message of each range has, estimated from the first ones."""
        starts = {key: start for key, (start, end) in ranges.items() if start < end}
        return {key: found[0][0] if found else 1024 for key, found in self.samples(starts).items()}

    def addresses(self) -> dict[str, str]:
        """Broker name -> address of its master, or of another replica while the master is away."""
        found: dict[str, str] = {}
        for entry in self.ask(lambda cluster: cluster.brokers()):
            replica = self._replicas.choose(entry.addresses, Purpose.STATE)
            if replica is not None:
                found[entry.name] = replica.address
        return found


def partition_numbers(keys: Iterable[QueueKey]) -> dict[QueueKey, int]:
    """The number of each queue in schema=kafka: queue id + 65536 * (brokers before, by name)."""
    every = list(keys)
    brokers: dict[str, list[str]] = {}
    for key in every:
        brokers.setdefault(key.topic, []).append(key.broker)
    order = {topic: sorted(set(names)) for topic, names in brokers.items()}
    return {
        key: order[key.topic].index(key.broker) * PARTITIONS_PER_BROKER + key.queue_id
        for key in every
    }


def _clamped(offset: int, ends: Ends) -> int:
    return min(max(int(offset), ends.first), ends.last)


def describe(key: QueueKey) -> str:
    return f"queue {key.queue_id} of topic {key.topic} on {key.broker}"


def _offset_in(reply: Command) -> int:
    if reply.code != ResponseCode.SUCCESS:
        raise RemoteError(reply.code, reply.remark or "no reason given")
    return int(reply.int_field("offset"))


def _committed_in(reply: Command) -> int | None:
    """None: the group has no offset there."""
    return None if reply.code == ResponseCode.QUERY_NOT_FOUND else _offset_in(reply)


def _sizes_and_times(reply: Command) -> list[tuple[int, int]]:
    if reply.code != ResponseCode.SUCCESS:
        return []
    found = list(decode_messages(reply.body, check_crc=False))
    return [(len(reply.body) // len(found), each.store_timestamp_ms) for each in found]
