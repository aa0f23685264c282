"""Role: a broker's part in replication, as its settings say.

With SYNC_MASTER a send is answered when inSyncReplicas brokers have it, this one included; the
default is 2. (RocketMQ's default is 1, which waits for nobody.)

With enableControllerMode the controller says who is master, and sends wait for the whole sync state
set, which must have at least 2 members, unless allAckInSyncStateSet and minInSyncReplicas say
otherwise. (With RocketMQ's defaults, false and 1, acknowledged messages are lost when the master
dies.)

Example: brokerRole=SYNC_MASTER, listenPort=10911: slaves are served at 10912, each send waits for
one of them.
"""

from rmq.config import Settings


def is_slave(settings: Settings) -> bool:
    return bool(settings.brokerRole == "SLAVE")


def serves_slaves(settings: Settings) -> bool:
    given = settings.given("brokerRole") or settings.given("haListenPort")
    return not is_slave(settings) and given


def ha_port(settings: Settings, listen_port: int) -> int:
    """The port at which the master listens for slaves; 0: any free one."""
    if settings.haListenPort:
        return int(settings.haListenPort)
    return listen_port + 1 if settings.listenPort else 0


def slaves_needed(settings: Settings) -> int:
    """For how many slaves' acks the answer to a send waits."""
    if settings.brokerRole != "SYNC_MASTER":
        return 0
    wanted = settings.inSyncReplicas if settings.given("inSyncReplicas") else 2
    return max(int(wanted) - 1, 0)


def acks_durable(settings: Settings) -> bool:
    """As slave: whether it acknowledges what is synced to its disk (true), or what is written to
    its file."""
    if settings.rmqSlaveAck == "auto":
        return bool(settings.flushDiskType == "SYNC_FLUSH")
    return bool(settings.rmqSlaveAck == "durable")


def is_controlled(settings: Settings) -> bool:
    """Whether the controller says who is master."""
    return bool(settings.enableControllerMode)


def acks_of_whole_set(settings: Settings) -> bool:
    """In controller mode: whether a send waits for all replicas in sync."""
    return bool(settings.allAckInSyncStateSet or not settings.given("allAckInSyncStateSet"))


def in_sync_min(settings: Settings) -> int:
    """In controller mode: how many must be in sync, this one included, else sends are refused."""
    return int(settings.minInSyncReplicas) if settings.given("minInSyncReplicas") else 2
