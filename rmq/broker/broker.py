"""Broker: the control side of one shard, all of it on one asyncio loop.

    core = ShardCore(..); core.open(); core.start()
    broker = Broker(settings, core)
    await broker.start()      tables to the reactor, requests served, registered
    await broker.stop()       unregistered, tables and offsets on disk; then core.stop()

It owns the tables (topics, groups, offsets, producers, consumers, locks), the tasks that run at
intervals, and the way from core.poll() to the handlers of requests/. Only here is everything that
the Contexts of the handlers name put together. Requests that arrive before start() wait in the core
and are served after it.

    every 1 s     disk usage                         every 10 s   silent clients, expired locks,
    every 5 s     consumer offsets to their file                  samples of counters, failed saves
    every 30 s    registration
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from rmq.auth.guard import Guard
from rmq.base import clock
from rmq.broker.access import Access
from rmq.broker.certificates import Certificates
from rmq.broker.clients.broker_to_client import BrokerToClient
from rmq.broker.clients.connections import Connection, Connections
from rmq.broker.clients.consumers import ConsumerTable
from rmq.broker.clients.filter_processes import FilterProcesses
from rmq.broker.clients.producers import ProducerTable
from rmq.broker.clients.subscription_filters import compiled
from rmq.broker.core_options import roll_ms
from rmq.broker.core_seam import Core
from rmq.broker.dispatch.body_cache import BodyCache
from rmq.broker.dispatch.dispatcher import Dispatcher
from rmq.broker.dispatch.response_times import ResponseTimes
from rmq.broker.dispatch.slow_requests import SlowRequests
from rmq.broker.dispatch.topic_creations import TopicCreations
from rmq.broker.reactor_watch import ReactorWatch
from rmq.broker.registration.peer_brokers import PeerBrokers
from rmq.broker.registration.registration import Registration
from rmq.broker.registration.routes import Routes
from rmq.broker.replication.controlled_replication import ControlledReplication
from rmq.broker.replication.replication import Replication
from rmq.broker.replication.role import is_controlled
from rmq.broker.requests.handlers import HANDLERS
from rmq.broker.siblings import Siblings
from rmq.broker.status.counter_history import (
    SAMPLE_S,
    TOPICS_MAX,
    CounterHistory,
    group_counter,
    topic_counter,
)
from rmq.broker.status.http_server import StatusServer
from rmq.broker.status.sampler import Sampler
from rmq.broker.store.key_index import IndexQueries
from rmq.broker.store.memory_report import log_memory
from rmq.broker.store.queue_reader import QueueReader, record_store_time
from rmq.broker.tables.data_version import DataVersion
from rmq.broker.tables.delay_levels import DelayLevels
from rmq.broker.tables.groups import GroupTable
from rmq.broker.tables.locks import LockTable
from rmq.broker.tables.metadata_journal import MetadataJournal
from rmq.broker.tables.offsets import OffsetTable
from rmq.broker.tables.pop_orders import PopOrders
from rmq.broker.tables.queue_mappings import QueueMappings
from rmq.broker.tables.request_modes import RequestModes
from rmq.broker.tables.topics import TopicTable
from rmq.broker.tasks import pop_recovery
from rmq.broker.tasks.moved_halves import MovedHalves
from rmq.broker.tasks.retention import Retention
from rmq.broker.tasks.transaction_checks import Transactions
from rmq.broker.tasks.write_stops import WriteStops
from rmq.config import Settings

log = logging.getLogger("rmq.broker")

HOUSEKEEPING_S = 10.0
DRAIN_S = 0.5
# Settings that the core takes at run time -> the core's own name of each.
CORE_OPTIONS = {
    "accessMessageInMemoryMaxRatio": "memory_percent",
    "brokerFastFailureEnable": "fast_failure",
    "brokerPermission": "broker_permission",
    "enablePropertyFilter": "property_filter",
    "filterSupportRetry": "filter_retries",
    "flushCommitLogLeastPages": "flush_least_pages",
    "flushCommitLogThoroughInterval": "flush_thorough_ms",
    "flushIntervalCommitLog": "flush_interval_ms",
    "longPollingEnable": "long_polling",
    "maxTransferBytesOnMessageInDisk": "disk_max_bytes",
    "maxTransferBytesOnMessageInMemory": "pull_max_bytes",
    "maxTransferCountOnMessageInDisk": "disk_max_messages",
    "maxTransferCountOnMessageInMemory": "pull_max_messages",
    "osPageCacheBusyTimeOutMills": "page_cache_busy_ms",
    "recallMessageEnable": "recalls",
    "rejectTransactionMessage": "reject_transactions",
    "storeReplyMessageEnable": "store_replies",
    "slaveReadEnable": "slave_read",
    "shortPollingTimeMills": "short_polling_ms",
    "slaveTimeout": "slave_timeout_ms",
    "startAcceptSendRequestTimeStamp": "sends_from_ms",
    "syncFlushTimeout": "sync_flush_timeout_ms",
    "timerMaxDelaySec": "timer_max_delay_sec",
    "waitTimeMillsInSendQueue": "send_wait_ms",
}


IN_SYNC = {"inSyncReplicas", "minInSyncReplicas", "allAckInSyncStateSet"}


class Broker:
    """Everything but the hot path. Owned by the control thread's loop."""

    def __init__(self, settings: Settings, core: Core, guard: Guard | None = None) -> None:
        """guard: must be open; None where accounts are not in use."""
        self.settings = settings
        self.core = core
        self.reactor_watch = ReactorWatch(core.reactor_turn, settings.rmqStuckReactorSeconds)
        root = Path(settings.storePathRootDir).expanduser()
        config = root / "config"
        self.commit_log_directory = settings.commit_log_directory
        self.consume_queue_directory = root / "consumequeue"
        self.started_at = clock.wall()
        self.guard = guard or Guard(settings, config, settings.brokerClusterName)
        self.access = Access(self.guard, core)
        self.certificates = Certificates(settings, core)
        self.settings_version = DataVersion()
        self.bodies = BodyCache()
        self.connections = Connections()
        self.broker_to_client = BrokerToClient(core)
        self.journal = MetadataJournal(config)
        self.topics = TopicTable(settings, core, config, self.journal)
        self.queue_mappings = QueueMappings(settings, core, config)
        self.topics.registered.on_put = self.queue_mappings.put_in_core
        self.topics.registered.on_remove = self.queue_mappings.forget
        self.groups = GroupTable(settings, core, config, self.journal)
        self.offsets = OffsetTable(core, config, self.groups.saved)
        self.pop_orders = PopOrders(core, config)
        self.producers = ProducerTable(core.put_client, core.put_producers)
        self.consumers = ConsumerTable(
            core,
            notify=self.broker_to_client.notify_ids_changed,
            may_read=self.groups.may_read,
            wants_notice=self._wants_notice,
            compiled=partial(compiled, self),
        )
        self.access.on_gone = self._users_gone
        self.functions = FilterProcesses(settings, core)
        self.request_modes = RequestModes(settings, config)
        self.routes = Routes(settings)
        self.peers = PeerBrokers(settings)
        self.locks = LockTable(core, config)
        self.queues = QueueReader(
            core, self.consume_queue_directory, settings.mappedFileSizeConsumeQueue
        )
        self.delays = DelayLevels(settings, core, config)
        self.transactions = Transactions(self)
        self.moved_halves = MovedHalves(self)
        self.index_queries = IndexQueries(core)
        self.creations = TopicCreations(self.topics, core)
        self.samples = CounterHistory()
        self.sampler = Sampler(self)
        self.status: StatusServer | None = None
        self.write_stops = WriteStops(core)
        directories = [self.commit_log_directory, self.consume_queue_directory]
        self.retention = Retention(settings, core, directories, self.write_stops)
        kind = ControlledReplication if is_controlled(settings) else Replication
        self.replication: Replication = kind(self, core)
        self.replication.role_changed = self._role_changed
        self.replication.take_pops_over = lambda: pop_recovery.take_over(self)
        self.registration = Registration(
            settings, self.topics, self.queue_mappings, self._addresses,
            lambda: self.replication.has_role,
        )  # fmt: skip
        self.response_times = ResponseTimes(self.topics.is_system)
        self.slow_requests = SlowRequests(settings)
        self.dispatcher = Dispatcher(self, HANDLERS)
        self.join(Siblings(self.registration))
        self._watched: set[str] = set()  # topics whose rates were requested (315)
        self._watched_groups: set[tuple[str, str]] = set()  # (topic, group)
        self._tasks: list[asyncio.Task[None]] = []

    def successor(self) -> "Broker":
        """Another broker on the same core, for when this one has stopped and the log was cut."""
        return Broker(self.settings, self.core, self.guard)

    @property
    def address(self) -> str:
        """The address that clients connect to, and that message ids contain."""
        return self._addresses()[0]

    def join(self, siblings: Siblings) -> None:
        """Takes the other shards of this machine, which are told of all changes; before start()."""
        self.siblings = self.topics.siblings = self.groups.siblings = siblings
        self.consumers.on_members = siblings.members_changed

    # ---- start and stop

    async def start(self) -> None:
        """After an error nothing here uses the core any more."""
        self.reactor_watch.start()
        try:
            await self._start()
        except BaseException:
            self.reactor_watch.stop()
            raise

    async def _start(self) -> None:
        self.access.open()
        self.queue_mappings.load()
        self.topics.load()
        self.queue_mappings.drop_orphans(lambda topic: topic in self.topics)
        self.groups.load()
        self.journal.renew()
        self.request_modes.load()
        self.locks.load()
        self.offsets.load()
        pop_recovery.recover(self)
        if self.offsets.mark is None or self.offsets.mark > self.core.log_range()[1]:
            await self.offsets.save()  # the file has no mark, or one beyond the log's end
        self.pop_orders.load()
        self.delays.load()
        self.transactions.load()
        self.topics.on_change = self._topics_changed
        self.queue_mappings.on_change = self._mappings_changed
        self.groups.on_forbid = lambda group: self.consumers.push_again(group, anew=True)
        loop = asyncio.get_running_loop()
        loop.add_reader(self.core.control_fd, self._readable)
        self._tasks = [
            loop.create_task(self._repeat("consumer offsets", self._offsets_interval,
                                                self.offsets.save)),
            loop.create_task(self._repeat("pops in order", self._offsets_interval,
                                                self.pop_orders.save)),
            loop.create_task(self._repeat("housekeeping", lambda: HOUSEKEEPING_S,
                                                self._housekeeping)),
            loop.create_task(self._repeat("samples", lambda: SAMPLE_S, self._sample)),
            loop.create_task(self._repeat("delay offsets", lambda: HOUSEKEEPING_S,
                                                self.delays.save)),
            loop.create_task(self._repeat("transaction checks", self._check_interval,
                                                self.transactions.check)),
            loop.create_task(self.retention.run()),
            loop.create_task(self.certificates.run()),
        ]  # fmt: skip
        self.functions.start()
        self.index_queries.start()
        self._readable()
        await self.siblings.start()
        await self.replication.start()
        await self.registration.start()
        if self.settings.metricsExporterType in ("LOG", "OTLP_GRPC"):
            log.warning("metricsExporterType: no metrics, rmq knows PROM only")
        if self.settings.metricsExporterType == "PROM":
            self.status = StatusServer(self)
            await self.status.start()
        log_memory(self.core.stats())
        log.info("broker %s serves at %s", self.settings.brokerName, self.address)

    async def stop(self) -> None:
        try:
            await self._stop()
        finally:
            self.reactor_watch.stop()  # last, because the steps before it wait for the reactor

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.status is not None:
            await self.status.stop()
        await self.siblings.stop()
        await self.registration.stop()
        await self.replication.stop()
        await self.dispatcher.drain(DRAIN_S)
        self.peers.stop()
        await self.functions.stop()
        self.index_queries.stop()
        self.sampler.stop()
        asyncio.get_running_loop().remove_reader(self.core.control_fd)
        self.creations.stop()
        for name, save in (
            # First, because it stops in the reactor everything that moves offsets: so no commit and
            # no pop is answered that would be missing in the files written after it.
            ("delay offsets", self.delays.stop),
            ("consumer offsets", self.offsets.save_whole),
            ("pops in order", self.pop_orders.stop),
            ("topics", self.topics.stop),
            ("queue mappings", self.queue_mappings.stop),
            ("subscription groups", self.groups.save_whole),
            ("request modes", self.request_modes.stop),
            ("changes of offsets", self.offsets.ended),
            ("changes of tables", self.journal.ended),
        ):
            try:
                await save()
            except Exception as error:  # the other tables are saved nevertheless
                log.error("%s are not saved: %r", name, error)

    # ---- events

    def connection_closed(self, connection: Connection) -> None:
        """Takes the connection out of every table."""
        self.broker_to_client.connection_closed(connection)
        self.replication.connection_closed(connection)
        self.producers.connection_closed(connection)
        self.consumers.connection_closed(connection)

    def _users_gone(self, users: set[str]) -> None:
        for client in (*self.producers.users_gone(users), *self.consumers.users_gone(users)):
            log.warning(
                "%s at %s is taken off: its user %s is deleted or disabled",
                client.client_id, client.connection.address, client.user,
            )  # fmt: skip

    def settings_changed(self, changes: Iterable[str]) -> None:
        """Passes changed run-time settings to the parts that keep copies of them."""
        keys = set(changes)
        self.settings_version.advance()
        for key in sorted(keys & CORE_OPTIONS.keys()):
            self.core.set_option(CORE_OPTIONS[key], int(getattr(self.settings, key)))
        if "fileReservedTime" in keys:
            self.core.set_option("timer_roll_ms", roll_ms(self.settings))
        if "namesrvAddr" in keys:
            self.registration.addresses_changed()
        if keys & IN_SYNC:
            self.replication.settings_changed()
        if "brokerPermission" in keys:
            self.topics.permission_changed()
        log.info("settings changed: %s", ", ".join(sorted(keys)))

    def earliest_store_time(self) -> int:
        """When the oldest message in the log was stored, in ms; -1 while there is none."""
        minimum, maximum, _ = self.core.log_range()
        record = self.core.read_record(minimum) if minimum < maximum else None
        return record_store_time(record) if record is not None else -1

    def _topics_changed(self, topics: Iterable[str]) -> None:
        self.registration.changed(topics)
        self.replication.exchange.wake()

    def _mappings_changed(self, topics: Iterable[str]) -> None:
        """Gives the table of topics a new version: name servers take mappings only with the whole
        table, and the table only if its version is new."""
        self.topics.registered.version.advance()
        self._topics_changed(())

    def _role_changed(self, epoch: int) -> None:
        """Called when the controller has made this broker master or slave."""
        self.settings_version.advance()
        self.topics.registered.version.state_version = epoch
        self.registration.role_changed()
        self.siblings.role_changed()
        self.replication.exchange.wake()

    def _readable(self) -> None:
        self.dispatcher.poll()

    def _wants_notice(self, group: str) -> bool:
        config = self.groups.get(group)
        return bool(self.settings.notifyConsumerIdsChangedEnable) and (
            config is None or config.notify_ids_changed
        )

    def _addresses(self) -> tuple[str, str]:
        """(address for clients, address for slaves)."""
        settings, port = self.settings, self.core.port
        # Where there is none: RocketMQ's name servers expect one from every broker.
        none = f"{settings.brokerIP2 or settings.brokerIP1}:{settings.haListenPort or port + 1}"
        return f"{settings.brokerIP1}:{port}", self.replication.ha_address or none

    # ---- at intervals

    def _offsets_interval(self) -> float:
        return float(self.settings.flushConsumerOffsetInterval) / 1000

    def _check_interval(self) -> float:
        return float(self.settings.transactionCheckInterval) / 1000

    async def _repeat(
        self, name: str, interval: Callable[[], float], work: Callable[[], Awaitable[Any]]
    ) -> None:
        """Runs `work` at intervals; a failure is logged, and the next run tries again."""
        while True:
            await asyncio.sleep(interval())
            try:
                await work()
            except Exception as error:
                log.error("%s: %s: %s", name, type(error).__name__, error)

    async def _housekeeping(self) -> None:
        silent_ms = self.settings.channelExpiredTimeout
        for client in (*self.producers.expire(silent_ms), *self.consumers.expire(silent_ms)):
            log.warning(
                "%s at %s is taken off: no heartbeat for %d s",
                client.client_id, client.connection.address, silent_ms // 1000,
            )  # fmt: skip
        self.locks.expire()
        if self.core.stats().get("timers_broken"):
            self.core.restart_timers()
        self.journal.tidy()
        self.queue_mappings.retry()

    def watch_topic(self, topic: str) -> None:
        """Samples this topic's counters, too, from now on."""
        if topic not in self._watched and len(self._watched) < TOPICS_MAX:
            self._watched.add(topic)
            self.take_sample()

    def watch_group(self, topic: str, group: str) -> None:
        """Counts what the group consumes of the topic, too, from the next sample on."""
        if len(self._watched_groups) < TOPICS_MAX:
            self._watched_groups.add((topic, group))

    async def _sample(self) -> None:
        self.take_sample()
        self.slow_requests.look(self.core)

    def take_sample(self) -> None:
        counters = self.core.stats()
        for topic in list(self._watched):
            numbers = self.core.topic_stats(topic.encode())
            if numbers is None:
                self._watched.discard(topic)
                continue
            counters[topic_counter(topic, "puts")] = numbers[0]
            counters[topic_counter(topic, "bytes")] = numbers[1]
        offsets = self.core.offsets() if self._watched_groups else {}
        for topic, group in list(self._watched_groups):
            found = offsets.get(f"{topic}@{group}".encode())
            if found is None:
                self._watched_groups.discard((topic, group))
                continue
            counters[group_counter(topic, group)] = sum(found.values())
        self.samples.take(counters)
