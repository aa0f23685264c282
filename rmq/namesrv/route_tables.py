"""Route tables: which brokers live, at which addresses, in which clusters, and for how long.

    brokers    broker name -> Broker {cluster, addresses: broker id -> "ip:port", ...}
    live       (cluster, "ip:port") -> Live {last sign of life, timeout, data version, connection}
    topics     TopicQueues

A broker name is a group of processes: the master has id 0, its slaves have higher ids. Only the
master describes topics; without a master the slave with the smallest id does, if brokers of that
group know of acting masters. A process leaves by UNREGISTER_BROKER, by silence longer than its
timeout (120 s unless its header said otherwise), or when the connection it registered on closes.

Example: master 10.0.0.1:10911 and slave 10.0.0.2:10911 of broker-a are one Broker with addresses
{0: "10.0.0.1:10911", 1: "10.0.0.2:10911"} and two Live entries. When the master's connection
closes, {1: ...} stays, and so do the topics; when the slave goes too, all of broker-a is forgotten.

It cleans up more than Apache's: when an address moves to another broker name, or is replaced under
the same id, its old entry is removed at once instead of staying for ever.

Owned by the event loop of the name server; nothing here waits or does I/O.
"""

import logging
from collections.abc import Callable

import msgspec

from rmq.base import clock
from rmq.codes import PERM_WRITE
from rmq.namesrv.registration import MASTER_ID, DataVersion, Registration, TopicConfig
from rmq.namesrv.topic_queues import QueueData, TopicQueues

HEARTBEAT_TIMEOUT_MS = 120_000

_log = logging.getLogger("rmq.namesrv.route_tables")

LiveKey = tuple[str, str]  # cluster, "ip:port"


class Broker(msgspec.Struct):
    """One broker name: a master and its slaves."""

    name: str
    cluster: str
    addresses: dict[int, str]  # broker id -> "ip:port"; never empty while in the table
    zone: str | None = None
    enable_acting_master: bool = False

    @property
    def smallest_id(self) -> int:
        return min(self.addresses)


class Live(msgspec.Struct):
    """One broker process that registered or sent a heartbeat in time."""

    broker_name: str
    broker_id: int
    data_version: DataVersion
    ha_address: str
    connection: object  # what it registered on, compared by identity
    timeout_ms: int
    last_seen_ms: float  # on the clock given to RouteTables
    filter_servers: list[str]


class SmallestIdChange(msgspec.Struct):
    """Another process leads a broker name now; its peers may have to be notified."""

    smallest_id: int
    smallest_address: str
    offline_address: str | None  # the process that led before, if it has left
    ha_address: str | None  # where to replicate from, if a new process has come
    peers: list[str]  # addresses to notify


class Accepted(msgspec.Struct):
    """The answer to a registration: where the master of the process is. Empty for masters."""

    master_address: str = ""
    ha_address: str = ""


def _monotonic_ms() -> float:
    return clock.monotonic() * 1000


def _ignore(change: SmallestIdChange) -> None:
    pass


class RouteTables:
    def __init__(self, clock: Callable[[], float] = _monotonic_ms) -> None:
        self.brokers: dict[str, Broker] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[LiveKey, Live] = {}
        self.topics = TopicQueues()
        self._clock = clock
        # Called for each change of the leading process; see notices.py.
        self.smallest_id_changed: Callable[[SmallestIdChange], None] = _ignore

    # ---- registration

    def register(
        self, registration: Registration, connection: object, forget_unlisted_topics: bool = False
    ) -> Accepted | None:
        """Takes a registration; None when it is refused.

        A list of exactly one topic from a process that is not known yet is refused: brokers
        announce a changed topic this way, and taking it for the whole list would hide their other
        topics.
        """
        broker = self.brokers.get(registration.broker_name)
        known_id = broker is not None and registration.broker_id in broker.addresses
        if not known_id and len(registration.topics) == 1:
            _log.warning(
                "%s at %s: first registration with one topic",
                registration.broker_name,
                registration.address,
            )
            return None
        key = (registration.cluster, registration.address)
        if broker is not None and self._outranked(broker, registration):
            _log.warning(
                "%s at %s: id %d is held by %s with newer state, ignored",
                registration.broker_name,
                registration.address,
                registration.broker_id,
                broker.addresses[registration.broker_id],
            )
            if key in self.live:
                self._leave(key, "its id is held by another")
            return Accepted()

        previous = self.live.get(key)
        if previous is not None and previous.broker_name != registration.broker_name:
            self._leave(key, "registers under another name")
            previous, broker = None, self.brokers.get(registration.broker_name)
        first = broker is None or not known_id
        led_by = broker.smallest_id if broker is not None else None
        broker = self._place(broker, registration)
        if self._describes_topics(broker, registration):
            changed = previous is None or previous.data_version != registration.data_version
            self._take_topics(broker, registration, first, changed, forget_unlisted_topics)
        self._note_alive(key, registration, previous, connection)
        if led_by is not None and registration.broker_id < led_by:
            self._report_new_leader(broker, registration.ha_address)
        return self._master_of(broker) if registration.broker_id != MASTER_ID else Accepted()

    def _outranked(self, broker: Broker, registration: Registration) -> bool:
        """Whether the id is held by another live address whose state version is higher."""
        holder = broker.addresses.get(registration.broker_id)
        if holder is None or holder == registration.address:
            return False
        live = self.live.get((registration.cluster, holder))
        return (
            live is not None
            and live.data_version.stateVersion > registration.data_version.stateVersion
        )

    def _place(self, broker: Broker | None, registration: Registration) -> Broker:
        """The broker with this address under this id, and under no other."""
        if broker is None:
            broker = self.brokers[registration.broker_name] = Broker(
                registration.broker_name, registration.cluster, {}
            )
        elif broker.cluster != registration.cluster:
            self._leave_cluster(broker)
            broker.cluster = registration.cluster
        self.clusters.setdefault(registration.cluster, set()).add(registration.broker_name)
        broker.zone = registration.zone
        broker.enable_acting_master = bool(registration.enable_acting_master)
        for broker_id, address in list(broker.addresses.items()):
            if address == registration.address and broker_id != registration.broker_id:
                del broker.addresses[broker_id]
        replaced = broker.addresses.get(registration.broker_id)
        if replaced is not None and replaced != registration.address:
            self.live.pop((registration.cluster, replaced), None)
        broker.addresses[registration.broker_id] = registration.address
        return broker

    def _describes_topics(self, broker: Broker, registration: Registration) -> bool:
        if registration.broker_id == MASTER_ID:
            return True
        return (
            registration.enable_acting_master is not None
            and registration.broker_id == broker.smallest_id
        )

    def _take_topics(
        self, broker: Broker, registration: Registration, first: bool, changed: bool, forget: bool
    ) -> None:
        if forget and not registration.queue_maps:
            for topic in self.topics.topics_of(broker.name):
                if topic not in registration.topics:
                    self.topics.remove_row(topic, broker.name)
        acting = registration.broker_id != MASTER_ID and broker.enable_acting_master
        for topic, config in registration.topics.items():
            if first or changed or not self.topics.has(topic, broker.name):
                self.topics.put(topic, _queue_data(broker.name, config, acting))
        if first or changed:
            for topic, queue_map in registration.queue_maps.items():
                self.topics.put_mapping(topic, str(queue_map.get("bname", broker.name)), queue_map)

    def _note_alive(
        self, key: LiveKey, registration: Registration, previous: Live | None, connection: object
    ) -> None:
        filter_servers = registration.filter_servers
        if filter_servers is None:
            filter_servers = previous.filter_servers if previous is not None else []
        timeout = registration.heartbeat_timeout_ms
        self.live[key] = Live(
            broker_name=registration.broker_name,
            broker_id=registration.broker_id,
            data_version=registration.data_version,
            ha_address=registration.ha_address,
            connection=connection,
            timeout_ms=HEARTBEAT_TIMEOUT_MS if timeout is None else timeout,
            last_seen_ms=self._clock(),
            filter_servers=filter_servers,
        )
        if previous is None:
            _log.info(
                "%s id %d registered at %s",
                registration.broker_name,
                registration.broker_id,
                registration.address,
            )

    def _report_new_leader(self, broker: Broker, ha_address: str) -> None:
        leader = broker.smallest_id
        others = [address for i, address in broker.addresses.items() if i != leader]
        address = broker.addresses[leader]
        change = SmallestIdChange(leader, address, None, ha_address, others or [address])
        self.smallest_id_changed(change)

    def _master_of(self, broker: Broker) -> Accepted:
        address = broker.addresses.get(MASTER_ID)
        live = self.live.get((broker.cluster, address)) if address is not None else None
        if address is None or live is None:
            return Accepted()
        return Accepted(address, live.ha_address)

    # ---- signs of life

    def touch(self, cluster: str, address: str) -> None:
        """Notes a sign of life other than a registration."""
        live = self.live.get((cluster, address))
        if live is not None:
            live.last_seen_ms = self._clock()

    def data_version(self, cluster: str, address: str) -> DataVersion | None:
        """The version of the topics that the process registered last; None when it is unknown."""
        live = self.live.get((cluster, address))
        return live.data_version if live is not None else None

    # ---- ends

    def unregister(self, cluster: str, address: str, broker_name: str) -> None:
        """Removes a process that unregisters."""
        key = (cluster, address)
        live = self.live.get(key)
        if live is not None and live.broker_name == broker_name:
            self._leave(key, "unregistered")

    def connection_closed(self, connection: object) -> None:
        """Removes every process whose last registration came on this connection."""
        gone = [key for key, live in self.live.items() if live.connection is connection]
        for key in gone:
            self._leave(key, "its connection closed")

    def expire(self) -> list[object]:
        """Removes silent processes; returns the connections on which they registered, which the
        caller closes."""
        now = self._clock()
        silent = [
            (key, live)
            for key, live in self.live.items()
            if live.last_seen_ms + live.timeout_ms < now
        ]
        for key, live in silent:
            self._leave(key, f"silent for more than {live.timeout_ms} ms")
        return [live.connection for _, live in silent]

    def _leave(self, key: LiveKey, why: str) -> None:
        live = self.live.pop(key)
        _log.info("%s id %d at %s leaves: %s", live.broker_name, live.broker_id, key[1], why)
        self._remove_address(key[1], live.broker_name)

    def _remove_address(self, address: str, broker_name: str) -> None:
        broker = self.brokers.get(broker_name)
        if broker is None or (broker.cluster, address) in self.live:
            return  # the process has changed its cluster and lives on under its new key
        led_by = broker.smallest_id
        for broker_id in [i for i, held in broker.addresses.items() if held == address]:
            del broker.addresses[broker_id]
        if not broker.addresses:
            del self.brokers[broker_name]
            self._leave_cluster(broker)
            self.topics.remove_broker(broker_name)
            return
        leader = broker.smallest_id
        if broker.enable_acting_master and leader != MASTER_ID:
            self.topics.change_write_permission(broker_name, False)
        if broker.enable_acting_master and leader != led_by:
            peers = list(broker.addresses.values())
            self.smallest_id_changed(
                SmallestIdChange(leader, broker.addresses[leader], address, None, peers)
            )

    def _leave_cluster(self, broker: Broker) -> None:
        names = self.clusters.get(broker.cluster)
        if names is not None:
            names.discard(broker.name)
            if not names:
                del self.clusters[broker.cluster]

    # ---- changes by operators

    def topics_of_cluster(self, cluster: str) -> list[str]:
        found: set[str] = set()
        for broker_name in self.clusters.get(cluster, ()):
            found.update(self.topics.topics_of(broker_name))
        return sorted(found)

    def remove_topic(self, topic: str, cluster: str | None) -> None:
        """Forgets the topic, or only what brokers of one cluster hold of it."""
        if not cluster:
            self.topics.remove_topic(topic)
            return
        for broker_name in self.clusters.get(cluster, ()):
            self.topics.remove_row(topic, broker_name)

    def put_topic(self, topic: str, rows: list[QueueData]) -> bool:
        """Adds rows by hand; False, and nothing added, when one names an unknown broker."""
        if any(row.brokerName not in self.brokers for row in rows):
            return False
        for row in rows:
            self.topics.put(topic, row)
        return True


def _queue_data(broker_name: str, config: TopicConfig, acting: bool) -> QueueData:
    """The row for a topic; under an acting master nobody may write."""
    return QueueData(
        brokerName=broker_name,
        perm=config.perm & ~PERM_WRITE if acting else config.perm,
        readQueueNums=config.readQueueNums,
        topicSysFlag=config.topicSysFlag,
        writeQueueNums=config.writeQueueNums,
    )
