"""Goal: weaker settings risk what docs/replicas.md says, and in the same case nothing is lost
with the defaults.

Method: a controller and three brokers as processes (tests/ha/trios.py). In each case a message is
sent that no other broker can get, or that no disk can sync; then the brokers that have it fail. The
settings decide whether the send is answered SEND_OK. A power cut is a disk that ends no sync any
more, a kill, and a log without what came since.
Cannot show: how often that happens; rounds count it (RMQ_HA_SETTINGS=weak).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.fed_slaves import log_of
from support.waiting import wait_until

from tests.ha.cluster import Broker
from tests.ha.losses import SETTINGS
from tests.ha.nemesis import start_all
from tests.ha.store_faults import cut_log
from tests.ha.stores import read_log
from tests.ha.test_failover import bodies, make, others, send, until_acked
from tests.ha.trios import Trio

pytestmark = pytest.mark.slow
ANSWER_S = 2.0  # less than the time after which a controller takes a broker for dead


def begin(trio: Trio) -> Broker:
    """Returns the master when all brokers have the message that was sent first."""
    make(trio, "t")
    until_acked(trio, b"before")
    trio.settle()
    return trio.nodes["master"]


@pytest.mark.parametrize(("settings", "is_acked"), [("weak", True), ("safe", False)])
def test_what_only_the_master_had_is_lost_if_its_answer_did_not_wait(
    tmp_path: Path, settings: str, is_acked: bool
) -> None:
    """allAckInSyncStateSet=false: the slaves stand still, the master answers, all are killed."""
    with Trio(tmp_path, SETTINGS[settings]) as trio:
        old = begin(trio)
        slaves = others(trio, old)
        for node in slaves:
            node.pause()
        assert (send(old, b"alone", timeout=ANSWER_S) == 0) is is_acked
        old.kill()
        for node in slaves:
            node.kill()
        start_all(slaves)
        until_acked(trio, b"after")
        old.start()
        trio.settle()
        assert trio.nodes["master"] is not old
        assert {*bodies(trio.nodes["master"])} == {b"before", b"after"}


@pytest.mark.parametrize(
    ("settings", "is_acked"), [(("minInSyncReplicas=1",), True), ((), False)], ids=["weak", "safe"]
)
def test_with_one_in_sync_a_message_is_on_one_disk(
    tmp_path: Path, settings: tuple[str, ...], is_acked: bool
) -> None:
    """minInSyncReplicas=1: the slaves are gone for long, the master goes on, and its disk dies."""
    with Trio(tmp_path, settings) as trio:
        old = begin(trio)
        slaves = others(trio, old)
        for node in slaves:
            node.kill()
        wait_until(lambda: old.in_sync() == 0)
        assert (send(old, b"alone", timeout=ANSWER_S) == 0) is is_acked
        old.kill()
        shutil.rmtree(old.store / "commitlog")
        assert not any(b"alone" in log_of(node.store, 1 << 40) for node in slaves)


@pytest.mark.parametrize(
    ("flush", "is_acked"), [("ASYNC_FLUSH", True), ("SYNC_FLUSH", False)], ids=["weak", "safe"]
)
def test_a_power_cut_of_all_takes_what_no_disk_had(
    tmp_path: Path, flush: str, is_acked: bool
) -> None:
    with Trio(tmp_path, (f"flushDiskType={flush}", "syncFlushTimeout=1000")) as trio:
        begin(trio)
        nodes = list(trio.nodes.values())
        for node in nodes:
            node.disk.hold("fdatasync", path="commitlog/")
        ends = {node.name: read_log(node.store).end for node in nodes}
        assert (send(trio.nodes["master"], b"in memory", timeout=ANSWER_S) == 0) is is_acked
        for node in nodes:
            node.kill()
        for node in nodes:
            cut_log(node.store, ends[node.name])
            node.disk.clear()
        start_all(nodes)
        until_acked(trio, b"after")
        trio.settle()
        assert {*bodies(trio.nodes["master"])} == {b"before", b"after"}
