"""Tests do not sleep: they wait for a state (support/waiting.py) or drive the clock
(support/driven_clock.py). Sleeps that are left are listed here with their reasons, and may only
become fewer.
(A disk that the fault shim makes slow, faults.sleep(..), is no sleep of a test. Official clients
under tests/compat have their own times.)
"""

import re

from support.source_tree import ROOT

SLEEP = re.compile(r"(?<!faults\.)(?<!disk\.)(?<!def )(?:\bsleep|\bmachine_sleep)\((?!0\))")
LOOK = "between two looks"
PACE = "between two requests"
FAULT = "when a fault comes, and how long it lasts"
NOTHING = "nothing comes, and no state tells that it will not"

# For each file: how many sleeps it has, and why.
SLEEPS = {
    # The pause between two looks at something. All other files wait by these functions.
    "support/waiting.py": (4, LOOK),
    "support/shard.py": (2, LOOK),
    "support/controllers.py": (1, LOOK),
    "support/fake_core.py": (1, LOOK),
    "support/broker_client.py": (1, LOOK),
    "support/popping.py": (1, LOOK),
    "support/promise_cases.py": (1, LOOK),
    "support/spark_driver.py": (
        2,
        "a script of its own looks; a task that is slow, as it is to be",
    ),
    "unit/base/test_driven_clock.py": (2, "the machine's clock against the driven one"),
    "unit/flow/test_check_backs.py": (1, LOOK),
    "ha/round.py": (3, "all histories are read at a look; when in a round a fault comes"),
    # The pace of traffic.
    "fault/test_busy_disk.py": (1, PACE),
    "fault/test_hostile_clients.py": (2, "an ordinary client's pace; clients that trickle"),
    "process/test_delayed_messages.py": (2, PACE),
    "process/test_timed_messages.py": (1, PACE),
    "process/test_pops.py": (2, "a sender's pace; when the kill comes"),
    "process/test_shard_faults.py": (1, PACE),
    "spark/test_processes.py": (2, "a sender's pace; when the kill comes"),
    "support/ack_history.py": (2, PACE),
    "support/lasting_load.py": (4, PACE),
    "support/power_cuts/promise.py": (1, PACE),
    # A fault: when it comes, and for how long.
    "fault/test_soak.py": (7, FAULT),
    "ha/faults.py": (3, FAULT),
    "ha/nemesis.py": (1, FAULT),
    "ha/quorum_faults.py": (1, FAULT),
    "ha/sequences.py": (1, FAULT),
    "ha/store_faults.py": (1, FAULT),
    "ha/test_promotion.py": (3, "only the master has what consumers read: nobody is told so"),
    "process/test_topic_races.py": (1, "two changes at every distance from each other"),
    "spark/test_faults.py": (1, FAULT),
    "support/managed_machine.py": (2, "as systemd looks, and waits with a restart"),
    "unit/client/test_stopped_process.py": (3, FAULT),
    "unit/load/test_loops.py": (1, "a broker that stalls"),
    "unit/broker/test_deadline.py": (4, "what takes too long, or ends amid a step"),
    "unit/client/test_push_orderly.py": (1, "a listener that takes its time"),
    "process/test_message_filters.py": (3, "a filter that is slow, hangs or waits"),
    # So much time must pass: it is measured, or no test can drive it.
    "fault/test_few_descriptors.py": (1, "processor time of a broker at rest"),
    "process/test_many_waiting.py": (2, "a million messages are due together"),
    "process/test_operating.py": (1, "how old a message is"),
    "process/test_shards_under_load.py": (1, "traffic of the bus at rest"),
    "support/power_cuts/timed_messages.py": (1, "until all are due"),
    "unit/broker/test_routes.py": (1, "a route that is too old"),
    "unit/net/test_connections.py": (2, "turns of a reactor at rest"),
    "unit/store/test_committer.py": (1, "processor time of a thread at rest"),
    "unit/store/test_flusher.py": (1, "a thread at rest"),
    # Nothing must happen, and no state tells when it would have happened.
    "ha/test_failover.py": (1, "slaves look at tables of which nothing is to be taken"),
    "fault/test_write_errors.py": (1, "a second try would come after half a second"),
    "spark/test_stream.py": (1, NOTHING),
    "support/power_cuts/transactions.py": (1, NOTHING),
    "unit/namesrv/test_connections.py": (1, "the first bytes of a frame are read alone"),
    "unit/observe/test_http.py": (1, "the server has taken the connection"),
    # The text of a program.
    "ha/test_rounds.py": (1, "of a process that is killed"),
    "source/test_time.py": (1, "of a breach of a rule"),
    "source/test_tools.py": (1, "of a test that takes too long"),
}


def found() -> dict[str, int]:
    counts = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name = str(path.relative_to(ROOT / "tests"))
        count = len(SLEEP.findall(path.read_text()))
        if count and not name.startswith("compat/"):
            counts[name] = count
    return counts


def test_no_test_sleeps_that_did_not() -> None:
    counts = found()
    more = {name: count for name, count in counts.items() if count > SLEEPS.get(name, (0,))[0]}
    assert more == {}, "wait for a state, or drive the clock"
    less = {name for name, (count, _) in SLEEPS.items() if counts.get(name, 0) < count}
    assert less == set(), "the table above may be made smaller"


def test_the_check_sees_a_planted_sleep() -> None:
    name = "sleep"
    for text in (f"time.{name}(1)", f"await asyncio.{name}(0.5)", f"machine_{name}(0.1)"):
        assert SLEEP.search(text), text
    for text in (f"asyncio.{name}(0)", f'faults.{name}("fsync", 9)', f"old.disk.{name}(1)"):
        assert not SLEEP.search(text), text
