"""Goal: a slave that an operator makes the master has all that was answered SEND_OK; and the
checker sees what a promotion by hand does not promise.

Method: a pair whose slave is killed. The master goes on, and is then killed, too, so consumers have
read messages that only the master had. Then the slave's store is started as the master, under
clients of every kind. With a controller consumers would not see such messages.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.ha.checker import check, files_of
from tests.ha.cluster import SETTINGS, PlainPair
from tests.ha.history import Writer
from tests.ha.nemesis import Risk, noted
from tests.ha.round import clients, make_topics, read_everything, until_answered

# Rules that break if consumers were ahead of the slave: about the messages that they saw, and about
# the places of these messages.
AHEAD = {"vanished", "two-messages", "reader-order", "group-order", "key-order", "overtaken",
         "offset-fell", "offset-unknown", "undelivered", "moved"}  # fmt: skip


def promote(cluster: PlainPair, history: Writer) -> None:
    """A promotion as docs/replicas.md says; the old master's store is not used again."""
    master, slave = cluster.nodes["master"], cluster.nodes["slave"]
    with noted(history, "promote", "slave", Risk(60_000, loses_locks=True)):
        slave.kill()
        time.sleep(1)
        master.kill()
        at = slave.words.index(SETTINGS[-1]) + 1
        slave.words[at:] = ["--set", "brokerName=ha-a"]
        slave.start()


@pytest.mark.slow
def test_what_was_answered_outlives_its_master(tmp_path: Path) -> None:
    histories = tmp_path / "histories"
    histories.mkdir()
    with PlainPair(tmp_path) as cluster:
        make_topics(cluster)
        with Writer(histories, "harness") as history, clients(cluster, tmp_path, 1) as users:
            until_answered(histories)
            time.sleep(1)
            promote(cluster, history)
            time.sleep(2)
            users.rest()
            reader = read_everything(cluster, histories, history)
            users.end()
            reader.finish()
        assert cluster.nodes["slave"].stop() == 0
        findings = check(files_of([histories]), [[cluster.nodes["slave"].store]], all_copies=True)
    assert "lost" not in findings.broken, findings.violations
    assert "not-copied" not in findings.broken
    assert {"two-messages"} <= set(findings.broken) <= AHEAD, findings.broken
