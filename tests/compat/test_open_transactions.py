"""Transactions that are open while the broker is ended (SIGTERM, SIGKILL) and started again.

The producers stay connected. There are twenty half messages, about which a producer knows nothing
before the restart. Half of them are committed and come once, half are rolled back. Apache's broker
may ask again about what was answered, and then stores a committed message more than once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from compat import type_scenarios
from compat.runner import ScenarioRunner
from compat.targets import Target


@pytest.mark.parametrize("manner", ["clean", "kill"])
def test_half_messages_survive_a_broker_restart(
    manner: str,
    kind: str,
    typing_target: Target,
    java: Callable[[str], ScenarioRunner],
    go: ScenarioRunner,
    session_id: str,
) -> None:
    once = kind == "rmq"
    runners = {"new": java("java-5.5.0-json"), "old": java("java-4.9.8-json"), "go": go}
    arguments = {"nameServer": typing_target.name_server, "broker": typing_target.broker,
                 "run": session_id, "once": str(once).lower()}  # fmt: skip

    def everywhere(scenario: str) -> None:
        asked = {name: runner.submit(scenario, **arguments, **{"as": f"open_{name}_{manner}"})
                 for name, runner in runners.items()}  # fmt: skip
        for name, future in asked.items():
            runners[name].result(future)

    with type_scenarios.Unended(typing_target.name_server, session_id) as ours:
        everywhere("transaction_open")
        time.sleep(1.5)  # by then the broker has asked about some
        typing_target.end(manner)
        typing_target.start()
        everywhere("transaction_end")
        assert ours.ended(once) == {"seen": list(range(0, 20, 2)), "all were asked about": True}
