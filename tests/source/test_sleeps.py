"""Tests of one part do not sleep: they wait for a state (support/waiting.py) or drive the clock
(support/driven_clock.py). What still sleeps stands here, and may only become less.
"""

import re

from support.source_tree import ROOT

SLEEPS = {
    "unit/broker/test_client_calls.py": 1,
    "unit/broker/test_deadline.py": 4,
    "unit/broker/test_registration.py": 2,
    "unit/broker/test_retries.py": 1,
    "unit/broker/test_routes.py": 1,
    "unit/client/test_push_orderly.py": 1,
    "unit/client/test_stopped_process.py": 3,
    "unit/flow/test_check_backs.py": 1,
    "unit/flow/test_sends.py": 1,
    "unit/load/test_loops.py": 1,
    "unit/namesrv/test_connections.py": 3,
    "unit/namesrv/test_notices.py": 1,
    "unit/net/test_connections.py": 2,
    "unit/observe/test_http.py": 1,
    "unit/store/test_committer.py": 3,
    "unit/store/test_flusher.py": 5,
    "unit/store/test_index.py": 1,
}


def test_no_test_of_a_part_sleeps_that_did_not() -> None:
    found = {}
    for folder in ("unit", "contract"):
        for path in sorted((ROOT / "tests" / folder).rglob("*.py")):
            count = len(re.findall(r"\bsleep\((?!0\))", path.read_text()))
            if count:
                found[str(path.relative_to(ROOT / "tests"))] = count
    more = {name: count for name, count in found.items() if count > SLEEPS.get(name, 0)}
    assert more == {}, "wait for a state, or drive the clock"
    less = {name: count for name, count in SLEEPS.items() if found.get(name, 0) < count}
    assert less == {}, "the table above may be made smaller"
