"""Goal: whatever part of a cluster fails, no rule of tests/ha/findings.py is broken, going by what
clients of every kind saw and by the brokers' stores.

Method: rounds (tests/ha/round.py): real processes, real clients, one fault each. The short form
kills an elected master; the long form plays each fault of each kind of cluster (`make test-ha`).
Cannot show: power cuts, which tests/fault is about.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support.source_tree import ROOT
from support.tree_process import environment
from support.waiting import wait_until

from tests.ha import network
from tests.ha.apache_pairs import ApachePair
from tests.ha.cluster import SingleBroker
from tests.ha.faults import FAULTS
from tests.ha.round import CLUSTERS, Round, run
from tests.ha.rounds import Rounds, choices, chosen, table, with_settings
from tests.ha.trios import EtcdTrio

SHORT_S = 1.0
LONG_S = 10.0
SEED = 20260


def kinds_of(apache: str | None) -> list[str]:
    """Kinds with Apache's broker are played only on request, as it must be downloaded."""
    return [kind for kind, each in CLUSTERS.items() if apache or not issubclass(each, ApachePair)]


def absent(kind: str) -> str:
    """Why there can be no such cluster here; "" when there can."""
    if issubclass(CLUSTERS[kind], EtcdTrio) and shutil.which("etcd") is None:
        return "no etcd: apt-get install etcd-server"
    return network.missing() if kind.startswith("cut") else ""


def test_a_short_round_breaks_no_rule(tmp_path: Path) -> None:
    this = run(1, "trio", "kill", "master", SEED, tmp_path, SHORT_S)
    assert this.is_good, table([this])
    assert this.findings.counts["acknowledged"] > 20
    assert this.findings.counts["offsets read"] > 0
    assert this.findings.counts["offsets kept over a fault"] > 0
    assert this.findings.counts["members of groups in order"] > 1
    assert this.findings.counts["batches"] > 1
    assert this.findings.counts["topics made"] > 0
    assert this.findings.counts["sets in sync"] > 1
    assert this.findings.counts["members judged"] > 0


def test_each_fault_of_each_kind_is_played_before_one_is_played_again() -> None:
    kinds = [*CLUSTERS]
    rows = choices(kinds, None)
    orders = [
        [chosen(turn * len(rows) + at, SEED, kinds, None) for at in range(1, len(rows) + 1)]
        for turn in range(2)
    ]
    assert [sorted(order) for order in orders] == [sorted(rows)] * 2
    assert orders[0] != orders[1] != rows


def test_what_clusters_are_to_survive_is_what_the_nemesis_can_do() -> None:
    named = {fault for kind in CLUSTERS.values() for fault, _ in kind.faults}
    assert named == FAULTS.keys() - {"none"}


def test_losses_are_counted_where_settings_are_weaker_and_break_rules_elsewhere() -> None:
    rounds = [Round(number, "trio", "behind", "master", SEED, settings)
              for number, settings in enumerate(("weak", "weak", "safe"))]  # fmt: skip
    for rule in ("lost", "lost", "two-messages"):
        rounds[0].findings.violation(rule, "it is gone")
        rounds[2].findings.violation(rule, "it is gone")
    assert [each.is_good for each in rounds] == [True, True, False]
    last = table(rounds).splitlines()[-2:]
    assert last == ["weak settings: 2 acknowledged messages were lost, in 1 of 2 rounds",
                    "2 of 3 rounds broke no rule"]  # fmt: skip
    rounds[0].findings.violation("log-damage", "whatever the settings are")
    assert not rounds[0].is_good


def test_nothing_lives_on_when_the_test_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.ha.cluster import SingleBroker\n"
        "with SingleBroker(Path(sys.argv[1])) as cluster:\n"
        "    print(cluster.nodes['a'].process.pid, flush=True); time.sleep(600)\n"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT,
                              stdout=subprocess.PIPE, env=environment())  # fmt: skip
    assert killed.stdout is not None
    broker = int(killed.stdout.readline())
    assert Path(f"/proc/{broker}").exists()
    killed.kill()
    killed.wait()
    killed.stdout.close()
    wait_until(lambda: not Path(f"/proc/{broker}").exists())


def test_a_broker_of_a_cluster_is_killed_and_comes_back(tmp_path: Path) -> None:
    with SingleBroker(tmp_path) as cluster:
        node = cluster.nodes["a"]
        node.kill()
        assert not node.is_running
        node.start()
        assert node.is_running and len(node.starts) == 2
        assert cluster.stop() == {"a": 0}


def test_rounds_that_were_interrupted_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played: list[tuple[int, int]] = []
    interruptions = [KeyboardInterrupt()]

    def interrupted(
        number: int, kind: str, fault: str, target: str, seed: int, *_: object
    ) -> Round:
        if number == 3 and interruptions:
            raise interruptions.pop()
        played.append((number, seed))
        this = Round(number, kind, fault, target, seed)
        this.findings.counts["acknowledged"] = 10 * number
        if number == 2:
            this.findings.violation("lost", "it is gone")
        return this

    monkeypatch.setattr("tests.ha.rounds.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Rounds(["single"], tmp_path, SEED, of="abc").play(4)
    these = Rounds(["single"], tmp_path, 1, of="abc")
    assert not these.play(4), "the second round was bad"
    assert played == [(number, SEED + number) for number in range(1, 5)]
    assert [each.findings.counts["acknowledged"] for each in these.done] == [10, 20, 30, 40]
    assert table(these.done) == (tmp_path / "table.txt").read_text()
    assert "3 of 4 rounds broke no rule" in table(these.done)
    for other in (Rounds(["single"], tmp_path, 1, of="another"),
                  Rounds(["single"], tmp_path, 1, settings="weak", of="abc"),
                  Rounds(["single"], tmp_path, 1)):  # fmt: skip
        assert other.done == [] and other.seed == 1


@pytest.mark.parametrize(
    ("clusters", "broken", "outcome"),
    [("cut-trio etcd-trio", "", pytest.skip.Exception),
     ("single cut-pair", "", pytest.skip.Exception),
     ("single cut-pair", "lost", AssertionError), ("single", "", None)],
    ids=["none of them", "some of them", "some of them, and others are bad", "all of them"],
)  # fmt: skip
def test_rounds_that_cannot_be_played_here_do_not_pass(
    monkeypatch: pytest.MonkeyPatch, clusters: str, broken: str, outcome: type[BaseException] | None
) -> None:
    def played(number: int, kind: str, *_: object) -> Round:
        assert kind == "single"
        this = Round(number, kind, "kill", "a", SEED)
        if broken:
            this.findings.violation(broken, "it is gone")
        return this

    monkeypatch.setattr(network, "missing", lambda: "network namespaces need root")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("tests.ha.rounds.run", played)
    monkeypatch.setenv("RMQ_HA_CLUSTERS", clusters)
    monkeypatch.setenv("RMQ_HA_ROUNDS", "2")
    monkeypatch.delenv("RMQ_HA_SETTINGS", raising=False)
    with pytest.raises(outcome) if outcome is not None else contextlib.nullcontext():
        test_many_rounds_break_no_rule()


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_many_rounds_break_no_rule() -> None:
    """`make test-ha`: each fault once of the kinds in RMQ_HA_CLUSTERS, or RMQ_HA_ROUNDS rounds;
    RMQ_HA_SEED repeats them. RMQ_HA_SETTINGS=weak counts what weaker settings lose, durable adds
    power cuts of all; RMQ_HA_JAVA=1 adds the official Java client, RMQ_HA_APACHE=1 Apache's broker.
    If a rule was broken the folder stays; it is not one of pytest's, which go when another run
    ends. RMQ_HA_GO_ON names the commit (`make test-ha GO_ON=1`), whose rounds in build/ha count. If
    a kind of cluster is impossible here, rounds of the others are played, and may fail. Then the
    test is skipped and does not pass, as it has not shown all that it must show."""
    settings = os.environ.get("RMQ_HA_SETTINGS", "safe")
    java = bool(os.environ.get("RMQ_HA_JAVA"))
    given = os.environ.get("RMQ_HA_CLUSTERS", " ".join(kinds_of(os.environ.get("RMQ_HA_APACHE"))))
    kinds = with_settings(given.split(), settings)
    reasons = {kind: reason for kind in kinds if (reason := absent(kind))}
    left_out = "; ".join(f"no rounds of {kind}: {reason}" for kind, reason in reasons.items())
    kinds = [kind for kind in kinds if kind not in reasons]
    if not kinds:
        pytest.skip(left_out)
    seed = int(os.environ.get("RMQ_HA_SEED") or time.time_ns() % 1_000_000)
    rounds = int(os.environ.get("RMQ_HA_ROUNDS") or len(choices(kinds, None, settings)))
    tested = os.environ.get("RMQ_HA_GO_ON", "")
    folder = ROOT / "build" / "ha" if tested else Path(tempfile.mkdtemp(prefix="rmq-ha-"))
    these = Rounds(kinds, folder, seed, None, settings, java, LONG_S, tested)
    told = f"{rounds} rounds with RMQ_HA_SEED={these.seed}, in {folder}"
    print(*[left_out] * bool(left_out), told, *[table(these.done)] * bool(these.done), sep="\n")
    good = these.play(rounds, functools.partial(print, flush=True))
    print(table(these.done))
    assert good, f"{told}\n{table([each for each in these.done if not each.is_good])}"
    if not tested:
        shutil.rmtree(folder)
    if left_out:
        pytest.skip(f"{left_out}. All others were good")
