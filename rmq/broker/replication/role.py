"""Role: what the settings say of a broker's part in replication.

With SYNC_MASTER a send is answered when inSyncReplicas brokers have it, this one included; 2 unless
it is set. (RocketMQ's default is 1, which waits for nobody.)

With enableControllerMode the controller says who is master, and sends wait for the whole sync state
set, of 2 at least, unless allAckInSyncStateSet and minInSyncReplicas say otherwise. (RocketMQ's
defaults, false and 1, lose what was acknowledged when the master dies.)

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
    """Where the master listens for slaves; 0: at any free port."""
    if settings.haListenPort:
        return int(settings.haListenPort)
    return listen_port + 1 if settings.listenPort else 0


def slaves_needed(settings: Settings) -> int:
    """Whose acks the answer to a send waits for."""
    if settings.brokerRole != "SYNC_MASTER":
        return 0
    wanted = settings.inSyncReplicas if settings.given("inSyncReplicas") else 2
    return max(int(wanted) - 1, 0)


def acks_durable(settings: Settings) -> bool:
    """As slave: whether it says that it has what is on its disk, or what is in its file."""
    if settings.rmqSlaveAck == "auto":
        return bool(settings.flushDiskType == "SYNC_FLUSH")
    return bool(settings.rmqSlaveAck == "durable")


def is_controlled(settings: Settings) -> bool:
    """Whether the controller says who is master."""
    return bool(settings.enableControllerMode)


def acks_of_whole_set(settings: Settings) -> bool:
    """In controller mode: whether a send waits for all that are in sync."""
    return bool(settings.allAckInSyncStateSet or not settings.given("allAckInSyncStateSet"))


def in_sync_min(settings: Settings) -> int:
    """In controller mode: how many are in sync, this one included, or sends are refused."""
    return int(settings.minInSyncReplicas) if settings.given("minInSyncReplicas") else 2
