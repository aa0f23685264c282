"""Round: clients on a cluster, a fault, and the checker's word on what they saw.

A new cluster, clients (workload.py), a fault that this kind of cluster is to survive,
and all is well again; then nothing is sent any more until all that was promised has come, the final
read, the stop, and the check of histories and stores. A round's folder stays when a rule was broken
in it; its seed makes the same choices again. Many rounds: rounds.py.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from support.topics import until_routed
from support.waiting import HANG_S, wait_until, wait_until_is

from rmq.client.blocking import admin
from rmq.client.blocking.cluster import Cluster as View
from rmq.client.blocking.connection import Connection
from rmq.codes import RequestCode, ResponseCode
from rmq.errors import RemoteError, RmqError
from rmq.format import fastjson
from tests.ha.apache_pairs import ApacheMaster, ApacheSlave
from tests.ha.checker import check, files_of, print_tables
from tests.ha.cluster import (
    ROOT,
    Cluster,
    CutPair,
    PlainPair,
    SingleBroker,
    end_with_parent,
)
from tests.ha.faults import inflict
from tests.ha.final_read import FinalReader
from tests.ha.findings import Findings
from tests.ha.history import (
    Committed,
    OffsetRead,
    Reset,
    Settled,
    Started,
    TopicsSeen,
    Writer,
    read,
)
from tests.ha.losses import OF_LOSSES, SETTINGS, WEAKER
from tests.ha.messages import Messages, Progress
from tests.ha.observer import Observer
from tests.ha.readers import undelivered
from tests.ha.setting import (
    BROKER_NAME,
    COMMITS,
    MADE,
    ORDERED,
    PLAIN,
    PULL,
    RESETS,
    TOPICS,
    TRANSACTED,
)
from tests.ha.trios import CutEtcdTrio, CutTrio, EtcdTrio, Trio
from tools.peers.java_client import history_client

KINDS = (SingleBroker, PlainPair, CutPair, Trio, CutTrio, EtcdTrio, CutEtcdTrio, ApacheSlave,
         ApacheMaster)  # fmt: skip
CLUSTERS = {each.kind: each for each in KINDS}
PROCESSES = (
    ("plain", "batches", "read-plain"),
    ("ordered", "operator", "commits", "resets", "topics"),
    ("read-ordered", "pop", "pop-ordered"),
    ("delayed", "timed", "transacted", "read-later"),
    ("read-ordered", "pop", "pop-ordered", "read-later"),  # second members of these groups
)
NOT_AT_APACHE = {"pop-ordered"}  # how Apache's broker keeps the order of pops is not judged
COME_S = 300.0  # time for all that was promised to come
SAME_S = 30.0  # for all brokers to have the same topics
LOST_S = 15.0  # if messages may be lost: after so long without a message nothing more comes
JAVA = "java"
JAVA_PRODUCERS = {f"{JAVA}-{kind}" for kind in ("send", "ordered", "transacted")}
NOT_COPIED = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)
END_S = HANG_S


@dataclass
class Round:
    number: int
    kind: str
    fault: str
    target: str
    seed: int
    settings: str = "safe"  # or another one of SETTINGS
    java: bool = False  # the official client is there, too
    findings: Findings = field(default_factory=Findings)
    failure: str = ""  # why there is nothing to check
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether no rule was broken; with weaker settings the consequences of a loss do not
        count."""
        allowed = OF_LOSSES if self.settings in WEAKER else set()
        return not self.failure and not self.findings.broken.keys() - allowed

    @property
    def lost(self) -> int:
        return self.findings.broken["lost"]

    def cells(self) -> tuple[str, ...]:
        counts = self.findings.counts
        broken = ", ".join(self.findings.broken) or "-"
        if self.settings in WEAKER and self.findings.broken:
            broken = ", ".join(f"{number} {rule}" for rule, number in self.findings.broken.items())
        return (str(self.number), self.kind, f"{self.fault} {self.target}",
                *(str(counts[name]) for name in
                  ("acknowledged", "unknown", "refused", "delivered", "duplicates")),
                "failed" if self.failure else broken, f"{self.seconds:.1f}")  # fmt: skip


# ---- the clients


class Clients:
    """The processes of clients, which run from the block's beginning to its end."""

    def __init__(self, cluster: Cluster, folder: Path, seed: int, java: bool = False) -> None:
        """java: adds the official client: producers of three kinds, and push consumers."""
        self._log = (folder / "clients.txt").open("a")
        self.processes: list[subprocess.Popen[bytes]] = []
        for number, row in enumerate(PROCESSES):
            kinds = [each for each in row if not (cluster.copies_ms and each in NOT_AT_APACHE)]
            self._start(cluster, [
                sys.executable, "-m", "tests.ha.workload", *kinds, "--namesrv", cluster.namesrv,
                "--folder", str(folder / "histories"), "--name", f"c{number}", "--seed", str(seed),
            ])  # fmt: skip
        if java:
            self._start(cluster, history_client(
                folder / "java", cluster.namesrv, folder / "histories", JAVA, PLAIN,
                ordered=ORDERED, transacted=TRANSACTED, group="ha-java",
            ))  # fmt: skip

    def _start(self, cluster: Cluster, words: list[str]) -> None:
        self.processes.append(subprocess.Popen(
            cluster.clients.command(words), stdin=subprocess.PIPE, stdout=self._log,
            stderr=self._log, cwd=ROOT, preexec_fn=end_with_parent,
        ))  # fmt: skip

    def rest(self) -> None:
        """Ends all sends."""
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(b"rest\n")
            process.stdin.flush()

    def end(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(END_S) for process in self.processes]
        assert codes == [0] * len(codes), f"clients ended with {codes}: {self._log.name}"

    def kill(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self._log.close()


@contextlib.contextmanager
def clients(cluster: Cluster, folder: Path, seed: int, java: bool = False) -> Iterator[Clients]:
    made = Clients(cluster, folder, seed, java)
    try:
        yield made
    finally:
        made.kill()


@contextlib.contextmanager
def observed(cluster: Cluster, folder: Path) -> Iterator[Observer | None]:
    """Only brokers whose masters are elected are observed: where the master is always the same, its
    own files say what is kept."""
    if not cluster.is_controlled:
        yield None
        return
    with Writer(folder, "observer") as history, Observer(cluster, history) as observer:
        yield observer


# ---- a round


def make_topics(cluster: Cluster) -> None:
    """Makes the topics of all clients, and the groups that have no consumer, which would make
    them."""
    with cluster.inside(), View(cluster.namesrv) as view:
        for topic, queues in TOPICS.items():
            until_made(cluster, partial(admin.create_topic, view, topic, queues))
        for group in (COMMITS, RESETS):
            until_made(cluster, partial(admin.create_group, view, group, {}))
        for topic, queues in TOPICS.items():
            until_routed(view, topic, {BROKER_NAME: queues})


def until_made(cluster: Cluster, change: Callable[[], object]) -> None:
    """Asks for the change until it is promised: on a busy machine slaves may be behind for a
    moment. A slave that never says what it has is not waited for."""

    def is_made() -> bool:
        try:
            change()
        except RemoteError as error:
            if error.code not in NOT_COPIED:
                raise
            return not cluster.is_told_of_changes
        return True

    wait_until(is_made)


def missing(messages: Messages, found: set[str]) -> int:
    """How many messages, and deliveries to groups, are still to come."""
    promised = {each.message for each in messages.promised()}
    return len(promised - found) + sum(1 for _ in undelivered(messages))


def until_answered(folder: Path, java: bool = False, since: int = 0) -> None:
    """Waits until each producer has had an answer since that time (ns). Java's producers ask for
    routes every 30 s."""
    wanted = {*TOPICS, *JAVA_PRODUCERS} if java else {*TOPICS}
    wait_until_is(lambda: wanted - {*_answered(folder, since)}, lambda missing: not missing, COME_S)


def _answered(folder: Path, since: int) -> Iterator[str]:
    for stored in Messages(read(files_of([folder])), Findings()).stored.values():
        if stored.at >= since:
            yield stored.process if stored.process in JAVA_PRODUCERS else stored.topic


def until_moved(folder: Path, cluster: Cluster) -> None:
    """Waits until keepers have moved their groups. None can be reset for certain where a broker is
    Apache's, whose slave asks for changes only now and then."""
    groups = {COMMITS} if cluster.copies_ms else {COMMITS, RESETS}
    until_seen(folder, groups, lambda each: isinstance(each, Committed | Reset) and each.acked)


def until_seen(folder: Path, groups: set[str], is_wanted: Callable[[Progress], bool]) -> None:
    """Waits until each of the groups has such an event."""

    def left() -> set[str]:
        messages = Messages(read(files_of([folder])), Findings())
        return groups - {place.group for place, steps in messages.offsets.items()
                         if any(map(is_wanted, steps))}  # fmt: skip

    wait_until_is(left, lambda found: not found, COME_S)


def settle(cluster: Cluster, folder: Path, history: Writer) -> None:
    """Returns when all is well again, and clients that were made since then have read offsets."""
    cluster.settle()
    with cluster.inside(), View(cluster.namesrv) as view:
        wait_until(lambda: is_master_routed(view, cluster))
    settled = time.monotonic_ns()
    history.add(Settled(at=settled))
    until_seen(folder, {COMMITS, RESETS, PULL},
               lambda each: isinstance(each, OffsetRead) and each.since >= settled)  # fmt: skip


def is_master_routed(view: View, cluster: Cluster) -> bool:
    """Whether the name server names the master of now."""
    try:
        entry = view.route(PLAIN).brokers.get(BROKER_NAME)
    except RmqError:
        return False
    return entry is not None and any(
        node.address == entry.master and node.is_running and node.is_master()
        for node in cluster.nodes.values()
    )


def read_everything(
    cluster: Cluster, histories: Path, history: Writer, still_s: float = COME_S
) -> FinalReader:
    """Reads until nothing that was promised is missing, or COME_S are over, or nothing has come for
    still_s: then the checker says what is missing."""
    end, left, changed = time.monotonic() + COME_S, -1, time.monotonic()
    with cluster.inside():
        reader = FinalReader(cluster.namesrv, history)
        while True:
            messages = Messages(read(files_of([histories])), Findings())
            reader.read_on({*TOPICS, *(each.topic for each in messages.stored.values())})
            before, left = left, missing(messages, reader.found)
            now = time.monotonic()
            changed = now if left != before else changed
            if not left or now > end or now > changed + still_s:
                return reader
            time.sleep(0.3)


def look_at_topics(cluster: Cluster, history: Writer) -> None:
    """Writes down which of the topics that clients made each broker has. An Apache slave asks for
    topics now and then only, so where a broker is Apache's the slave is left out."""
    nodes = [each for name, each in cluster.nodes.items()
             if name != "slave" or not cluster.copies_ms]  # fmt: skip
    found: dict[str, set[str]] = {}

    def look() -> bool:
        for node in nodes:
            with Connection(node.address) as connection:
                reply = connection.call(RequestCode.GET_ALL_TOPIC_CONFIG)
            table = fastjson.loads_object(reply.body)["topicConfigTable"]
            found[node.address] = {str(topic) for topic in table if str(topic).startswith(MADE)}
        return len({frozenset(each) for each in found.values()}) == 1

    with contextlib.suppress(AssertionError):  # the checker says what differs
        wait_until(look, SAME_S)
    for address, topics in found.items():
        history.add(TopicsSeen(broker=address, topics=tuple(sorted(topics))))


def play(this: Round, folder: Path, seconds: float) -> None:
    """Plays a round up to its check; AssertionError or RmqError when it does not get so far."""
    maker = Random(this.seed)
    histories = folder / "histories"
    histories.mkdir()
    with CLUSTERS[this.kind](folder, SETTINGS[this.settings]) as cluster:
        make_topics(cluster)
        with (
            Writer(histories, "harness") as history,
            clients(cluster, folder, this.seed, this.java) as users,
            observed(cluster, histories) as observer,
        ):
            until_answered(histories, this.java)
            until_moved(histories, cluster)
            if observer is not None:
                observer.until_held()
            time.sleep(maker.uniform(0.2, 0.5) * seconds)
            inflict(this.fault, cluster, this.target, maker, history,
                    maker.uniform(0.2, 0.6) * seconds)  # fmt: skip
            settle(cluster, histories, history)
            until_answered(histories, this.java, time.monotonic_ns())
            time.sleep(maker.uniform(0.2, 0.5) * seconds)
            users.rest()
            still_s = LOST_S if this.settings in WEAKER else COME_S
            reader = read_everything(cluster, histories, history, still_s)
            cluster.settle()
            users.end()
            with cluster.inside():
                reader.finish()
                look_at_topics(cluster, history)
            for node in cluster.nodes.values():
                for at in node.starts[1:]:
                    history.add(Started(at=at, broker=node.address))
        codes = cluster.stop()
        assert set(codes.values()) == {0}, f"brokers ended with {codes}"
        this.findings = check(files_of([histories]), cluster.stores(), cluster.all_copies)


def run(
    number: int, kind: str, fault: str, target: str, seed: int, folder: Path, seconds: float,
    settings: str = "safe", java: bool = False,
) -> Round:  # fmt: skip
    this = Round(number, kind, fault, target, seed, settings, java)
    began = time.monotonic()
    own = folder / f"round-{number:03d}"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    try:
        play(this, own, seconds)
    except (AssertionError, RmqError, OSError, subprocess.SubprocessError) as error:
        this.failure = f"{type(error).__name__}: {str(error)[:2000]}"
    this.seconds = time.monotonic() - began
    if not this.is_good:
        print_tables(this.findings, files_of([own / "histories"]))
    if this.is_good:
        shutil.rmtree(own)
    return this
