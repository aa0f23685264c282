"""Goal: operators see replicas, switch masters, and remove and add replicas.

Method: the demo's cluster of real processes, and the command line; a plain pair beside it.
Not shown here: two machines (which addresses a master lets in).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.broker_process import broker_process
from support.command_line import rmq
from support.driven_clock import process_clock
from support.forked_commands import forked_children
from support.terminal import rmq_on_terminal
from support.topics import make_topic
from support.waiting import HANG_S, wait_until

from rmq.client.blocking.cluster import Cluster
from rmq.client.blocking.replicas import Replicas
from rmq.demo.cluster import DemoCluster
from rmq.demo.traffic import TOPIC, Traffic
from rmq.system.child import Child


@pytest.fixture(autouse=True)
def _forked() -> Iterator[None]:
    """Servers are forks here. tests/process/test_demo.py tests how the demo starts them."""
    with forked_children():
        yield


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DemoCluster]:
    made = DemoCluster(tmp_path / "cluster", 3)
    try:
        made.start(lambda _: None)
        wait_until(lambda: len(in_sync(made)) == 3)
        yield made
    finally:
        made.stop()


def broker_set(cluster: DemoCluster) -> dict[str, Any]:
    done = rmq("replica", "status", "--json", "-n", cluster.namesrv)
    brokers: list[dict[str, Any]] = json.loads(done.stdout)["brokers"]
    assert [each["name"] for each in brokers] == ["broker-a"]
    return brokers[0]


def in_sync(cluster: DemoCluster) -> list[int]:
    rows = broker_set(cluster)["replicas"]
    return [each["id"] for each in rows if each["in_sync"] and each["alive"]]


def test_replicas_are_shown_switched_taken_off_and_added(
    cluster: DemoCluster, tmp_path: Path
) -> None:
    names = ("-n", cluster.namesrv)
    ready = [child.log_path.read_text() for child in cluster.brokers.values()]
    assert "(ASYNC_FLUSH), master of epoch 1. Try" in ready[0]
    assert f"slave 2 of {cluster.addresses[1]} (epoch 1)" in ready[1]

    shown = rmq("replica", "status", *names)
    assert shown.returncode == 0
    assert re.search(r"broker-a  1 +127.0.0.1:\d+ +master +yes +yes +1 ", shown.stdout)
    assert "broker-a: master 1 of epoch 1; in sync [1, 2, 3]" in shown.stdout
    leads = [line for line in shown.stdout.splitlines() if line.endswith(": leads")]
    assert len(leads) == 1 and "does not answer" not in shown.stdout
    by_controller = rmq("replica", "status", "--controller", cluster.controllers[-1], *names)
    assert "master 1 of epoch 1" in by_controller.stdout

    assert (
        "no replica 9; its replicas are 1, 2, 3"
        in rmq("replica", "promote", "broker-a", "9", *names).stderr
    )
    assert "it knows broker-a" in rmq("replica", "promote", "broker-x", "1", *names).stderr
    assert "already" in rmq("replica", "promote", "broker-a", "1", *names).stdout
    done = rmq("replica", "promote", "broker-a", "2", "--json", *names)
    assert done.returncode == 0, done.stderr
    assert 0 <= json.loads(done.stdout)["ready_ms"] < HANG_S * 1000
    wait_until(lambda: in_sync(cluster) == [1, 2, 3])
    now = broker_set(cluster)
    assert (now["master_id"], now["master_epoch"]) == (2, 2)

    assert "stop it first" in rmq("replica", "remove", "broker-a", "3", "--yes", *names).stderr
    cluster.brokers[3].kill()
    wait_until(lambda: in_sync(cluster) == [1, 2])
    assert rmq("replica", "status", *names).returncode == 1
    assert "is down: start it" in rmq("replica", "promote", "broker-a", "3", *names).stderr
    assert rmq("replica", "remove", "broker-a", "3", *names, text="n\n").returncode != 0
    removed = rmq("replica", "remove", "broker-a", "3", "--json", *names, text="y\n")
    assert removed.returncode == 0 and "Its disk is not touched" in removed.stderr
    assert json.loads(removed.stdout) == {"done": "removed", "broker": "broker-a", "id": 3}
    assert [each["id"] for each in broker_set(cluster)["replicas"]] == [1, 2]

    port = cluster.addresses[3].rpartition(":")[2]
    file = tmp_path / "four.properties"
    where = ("--port", port, "--store", str(tmp_path / "four"))
    added = rmq("replica", "add", "broker-a", "--write", str(file), *where, *names)
    assert added.returncode == 0, added.stderr
    four = Child("four", [sys.executable, "-m", "rmq", "broker", "-c", str(file)], tmp_path)
    try:
        four.start()
        wait_until(lambda: in_sync(cluster) == [1, 2, 4])
    finally:
        four.stop()


def test_who_has_everything_leads_when_the_master_was_left_alone_before_it_died(
    cluster: DemoCluster,
) -> None:
    """Both slaves are killed, and then the master, which stays away. It could answer nothing by
    itself, so the slaves have everything; shown meanwhile is who does not answer."""
    names = ("-n", cluster.namesrv)
    for number in (2, 3):
        cluster.brokers[number].kill()
    wait_until(lambda: "alone" in rmq("broker", "status", *names).stdout)
    shown = rmq("replica", "status", *names)
    assert shown.returncode == 1
    members = [each["id"] for each in broker_set(cluster)["replicas"] if each["in_sync"]]
    silent = members[1:]
    assert members[0] == 1 and 1 <= len(silent) <= 2, "of three one may have left before"
    assert f"of which {silent} do not answer their master" in shown.stdout
    cluster.brokers[1].kill()
    for number in (2, 3):
        cluster.brokers[number].start()
    wait_until(lambda: "running" in rmq("broker", "status", *names).stdout)
    wait_until(lambda: in_sync(cluster) == [2, 3])


@pytest.mark.parametrize("all_ack", [True, False])
def test_a_planned_switch_under_load_loses_nothing(tmp_path: Path, all_ack: bool) -> None:
    """A planned switch does not wait for the end of the lease (5 s) either, whether or not acks
    need all replicas in sync."""
    pairs = [] if all_ack else ["allAckInSyncStateSet=false"]
    cluster = DemoCluster(tmp_path / "cluster", 3, pairs)
    traffic = Traffic(cluster.namesrv)
    names = ("-n", cluster.namesrv)
    try:
        cluster.start(lambda _: None)
        wait_until(lambda: in_sync(cluster) == [1, 2, 3])
        with Cluster(cluster.namesrv) as view:
            make_topic(view, TOPIC, 4)
        traffic.start()
        for master in (2, 3):
            before = traffic.sent
            wait_until(lambda before=before: traffic.sent > before + 50)  # type: ignore[misc]
            wait_until(lambda: in_sync(cluster) == [1, 2, 3])
            done = rmq_on_terminal("replica", "promote", "broker-a", master, *names)
            assert done.code == 0, done.text
            assert "waiting" not in done.text and f"{master} at" in done.text
            assert "promote broker-a" in done.text, "a bar"
        after = traffic.sent
        wait_until(lambda: traffic.sent > after + 50)
        traffic.stop_sending()
        wait_until(lambda: traffic.on_the_way() == 0)
        with Cluster(cluster.namesrv) as view:
            for address in cluster.addresses.values():
                settings = Replicas(view, []).settings(address)
                assert settings["allAckInSyncStateSet"] == "false"  # as it was, set or not
            assert Replicas(view, []).acks_of_all(cluster.addresses[3]) is all_ack
    finally:
        traffic.close()
        cluster.stop()


def test_a_controller_that_is_away_is_said_wherever_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DemoCluster(tmp_path / "cluster", 2)
    names = ("-n", cluster.namesrv)
    try:
        cluster.start(lambda _: None)
        wait_until(lambda: in_sync(cluster) == [1, 2])
        top = json.loads(rmq("top", "--once", "--json", *names).stdout)
        assert [(row["role"], row["epoch"], row["in_sync"]) for row in top] == [
            ("master of 1", 1, 2), ("slave", 1, None),
        ]  # fmt: skip
        for child in cluster.others:
            if child.name.startswith("controller"):
                child.stop()
        lost = rmq("replica", "status", *names)
        assert lost.returncode == 3 and "Start one with `rmq controller`" in lost.stderr
        # The controller that led is asked once more, before all are asked.
        wait_until(lambda: "no controller leads" in rmq("broker", "status", *names).stderr)
        shown = rmq("broker", "status", *names)
        assert shown.returncode == 1 and "no controller" in shown.stdout
        two = cluster.brokers[2]
        two.stop()
        with process_clock(tmp_path) as clock:
            for key in ("RMQ_TEST_CLOCK", "RMQ_TESTING"):
                monkeypatch.setenv(key, clock.environment[key])
            two.start()  # it waits for a role for a while
            with clock.passing():
                wait_until(two.says_ready)
        line = two.log_path.read_text().rpartition(" is ready ")[2]
        assert "no role yet: no controller leads: " in line
    finally:
        cluster.stop()


def test_a_broker_without_a_controller_is_shown_and_not_promoted(tmp_path: Path) -> None:
    with broker_process(tmp_path / "master", ["--set", "brokerRole=ASYNC_MASTER"]) as master:
        names = ("-n", master.namesrv)
        store = str(tmp_path / "slave")
        command = ("broker", "--replica-of", master.address, "--store", store, "--port", "0")
        slave = Child("slave", [sys.executable, "-m", "rmq", *command], tmp_path)
        try:
            slave.start()
            wait_until(lambda: rmq("replica", "status", "broker-a", *names).returncode == 0)
            wait_until(lambda: "slave" in rmq("replica", "status", *names).stdout)
            shown = rmq("replica", "status", *names)
            assert "no controller; brokerRole decides which one is master" in shown.stdout
            refused = rmq("replica", "promote", "broker-a", "1", *names)
            assert refused.returncode == 2 and "brokerRole=SYNC_MASTER" in refused.stderr
        finally:
            slave.stop()
