"""Goal: controllers work with an etcd newer than the 3.4 of Debian 12, which other tests use.

Method: etcd is built from its Go module (tools/peers/etcd) and found before the machine's own. The
tests of the controller that need an etcd run with it. Then clients work on three brokers, two
controllers and three members of etcd; first the leader of etcd is killed, then the master.
Cannot show: what an upgrade of etcd does to a running cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.etcd_server import etcd_server
from support.source_tree import ROOT
from support.tree_process import environment

from tests.ha.round import run
from tests.ha.rounds import table
from tools.peers.cache import HERE
from tools.peers.go_program import compiled

SEED = 20260
SHORT_S = 1.0
TESTS = (
    "tests/process/test_controller.py",
    "tests/unit/controller/test_stores.py",
    "tests/unit/controller/test_controller.py::test_the_next_leader_knows_the_sets_and_who_lives",
    "tests/unit/broker/test_controlled_role.py::test_the_next_controller_that_leads_goes_on",
)

pytestmark = pytest.mark.timeout(1800)  # the build included


@pytest.fixture(autouse=True)
def newer_etcd(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes every test find this etcd."""
    program = compiled(HERE / "etcd")
    monkeypatch.setenv("PATH", os.pathsep.join((str(program.parent), os.environ["PATH"])))
    yield


def test_it_is_the_newer_one(tmp_path: Path) -> None:
    with etcd_server(tmp_path) as etcd, urllib.request.urlopen(f"{etcd.endpoint}/version") as said:
        version = json.loads(said.read())["etcdserver"]
    assert tuple(map(int, version.split(".")[:2])) >= (3, 5)


def test_the_controllers_own_tests_pass() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-skips", *TESTS],
        cwd=ROOT, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("fault", "target"), [("etcd-leader", ""), ("kill", "master")])
def test_a_short_failover_breaks_no_rule(fault: str, target: str, tmp_path: Path) -> None:
    this = run(1, "etcd-trio", fault, target, SEED, tmp_path, SHORT_S)
    assert this.is_good, table([this])
    assert this.findings.counts["acknowledged"] > 20
