"""Sample: every number that one shard shows an operator at one moment, and its JSON form.

A shard makes one (rmq/broker/status/sampler.py) for /metrics, for `rmq top` and
`rmq broker status`, and for adding up the shards of a machine. Counters grow from the start of the
process on; a rate is the difference of two samples divided by the difference of their `uptime_ms`.

    {"broker":"broker-a","shard":0,"counters":{"messages_in":1200,..},
     "pools":{"reply":[16384,5120,0,17,0]},"latencies":{"append":[[0,3,..],1234]},..}

Fields may be added: a reader ignores unknown fields and uses defaults for missing ones, so that the
shards of one machine may have two versions for a while.
"""

from __future__ import annotations

import msgspec

# (counts between bounds, one more than there are bounds; the sum of the values)
StepCounts = tuple[list[int], int]

# RocketMQ's bounds of its histograms, as the core and the control thread count them.
RPC_STEPS_MS = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
CREATE_STEPS_MS = (10, 100, 1000, 3000, 5000)
FINISH_STEPS_S = (5, 60, 600, 3600, 43200, 86400)
WAIT_STEPS_S = (60, 600, 3600, 43200, 86400, 259200)


class TopicSample(msgspec.Struct):
    """Counters of one topic since the start."""

    name: str
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    is_system: bool = False
    # TopicNumbers of the core (cext/flow/tables/topic_table.pxd); empty: all zero.
    numbers: list[int] = []
    end: int = 0  # the sum of the offsets at which its queues end

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """{message type: (messages, bytes) stored}; normal messages are always listed."""
        n = self.numbers or [0] * 6
        special = {kind: (n[i], n[3 + i]) for i, kind in enumerate(SPECIAL_KINDS) if n[i]}
        normal = (self.messages_in - sum(n[:3]), self.bytes_in - sum(n[3:6]))
        return {"normal": normal, **special}

    @property
    def ended(self) -> tuple[int, int]:
        """Transactions (committed, rolled back)."""
        return (self.numbers[6], self.numbers[7]) if self.numbers else (0, 0)

    @property
    def timed_out(self) -> int:
        """How many timed messages were delivered."""
        return self.numbers[8] if self.numbers else 0

    @property
    def timed(self) -> StepCounts:
        """Timed messages taken, by the seconds that they must wait (WAIT_STEPS_S)."""
        bounds = len(WAIT_STEPS_S) + 1
        return (self.numbers[9 : 9 + bounds], self.numbers[19]) if self.numbers else ([], 0)


SPECIAL_KINDS = ("fifo", "delay", "transaction")  # in the order of the core's MessageKind


class DeliverySample(msgspec.Struct):
    """What was delivered of a topic to a group since the start."""

    group: str
    topic: str
    messages: int
    bytes: int


class RpcSample(msgspec.Struct):
    """How long answers to one kind of request took (RPC_STEPS_MS)."""

    request: int
    response: int
    held: bool  # pulls that waited for a message
    times: StepCounts


class CreationSample(msgspec.Struct):
    """How long it took to make or change topics or groups (CREATE_STEPS_MS)."""

    what: str  # topic | group
    done: bool
    times: StepCounts
    is_system: bool = False  # a system topic, which is refused


class LagSample(msgspec.Struct):
    """How far a group is behind in a topic, summed over the queues of this shard."""

    group: str
    topic: str
    messages: int  # above the committed offsets
    inflight: int = 0  # those of them that were delivered
    ready: int = 0  # those that were not
    latency_ms: int = -1  # age of the oldest message above the committed offset; -1 not known
    queueing_ms: int = -1  # age of the oldest that was not delivered; -1 not known
    committed: int = 0  # the sum of the offsets of all queues


class ClientSample(msgspec.Struct):
    """How many connections of one kind there are."""

    group: str  # empty: all groups beyond the limit
    language: str
    version: str  # its name (rmq/codes.py)
    count: int = 0
    mode: str = ""  # of consumers: push or pull; empty for producers
    is_system: bool = False


class SlaveSample(msgspec.Struct):
    """A slave as its master sees it."""

    address: str
    behind_bytes: int  # of the log, which it has not acknowledged
    behind_ms: int  # since it had everything
    broker_id: int = 0  # under a controller; 0: not known


class Sample(msgspec.Struct):
    """One shard at one moment."""

    cluster: str = ""
    broker: str = ""
    shard: int = 0
    address: str = ""
    version: str = ""  # the version of RocketMQ that the shard tells clients
    build: str = ""  # rmq's own version, with its commit
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
    reactor_standing_s: int = 0  # how long it has taken no turn; from 5 s on `state` shows it
    # pool: buffer bytes, buffers, in use, most ever in use, refusals
    pools: dict[str, tuple[int, int, int, int, int]] = {}
    latencies: dict[str, tuple[list[int], int]] = {}  # counts per bucket, sum in us
    steps: dict[str, StepCounts] = {}  # finish: transactions from send to end (FINISH_STEPS_S)
    rpc: list[RpcSample] = []
    created: list[CreationSample] = []
    page_cache: tuple[int, int, int] = (0, -1, 0)  # resident, dirty (-1 unknown), looked at
    groups: int = 0
    topics: list[TopicSample] = []
    deliveries: list[DeliverySample] = []
    lags: list[LagSample] = []
    producers: list[ClientSample] = []
    consumers: list[ClientSample] = []
    sizes: list[int] = []  # [n]: stored messages of 2 ** (n - 1) to less than 2 ** n bytes
    half_messages: int = -1  # transactions open; -1 not known
    timers_behind: int = -1  # timed messages stored but not read into the timers; -1 not known
    role: str = ""  # master or slave; empty for a broker without replicas
    slaves: list[SlaveSample] = []  # of a master
    follows: str = ""  # of a slave: where its log comes from; empty: it does not come
    # Under a controller.
    broker_id: int = 0
    master_epoch: int = 0  # of the mastership that it leads or follows; 0: none
    master_address: str = ""  # the address of a slave's master; empty: none is known
    in_sync: int = -1  # of a master: brokers in sync that answer, itself included; -1: not known
    in_sync_min: int = 0  # with fewer it refuses sends (minInSyncReplicas)
    replication_problem: str = ""  # what keeps it from being a complete copy, or from having one
    lag: int = 0  # messages of all lags, including those left out
    left_out: int = 0  # topics, lags, and clients' groups beyond the limit
    lags_without_age: int = 0  # of the lags in the sample, for lack of time


def encode(sample: Sample) -> bytes:
    return msgspec.json.encode(sample)


def decode(data: bytes | str) -> Sample:
    """The sample; msgspec.DecodeError (a ValueError) when it is none."""
    return msgspec.json.decode(data, type=Sample)
