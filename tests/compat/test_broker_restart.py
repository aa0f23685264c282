"""What clients keep when the broker is restarted, by SIGTERM and by SIGKILL.

The test ends and starts the broker between two scenarios of the Java or Go client. A kill takes at
most the offsets of the last flushConsumerOffsetInterval with it (1 s here); acked messages never.
What this cannot show: a power cut (tests/fault has the store's own tests).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from compat.runner import ScenarioRunner
from compat.targets import Target

MANNERS = ["clean", "kill"]
OFFSET_FLUSH_SECONDS = 2.5


def restart(target: Target, manner: str) -> None:
    time.sleep(OFFSET_FLUSH_SECONDS)
    target.end(manner)
    target.start()


@pytest.mark.parametrize("manner", MANNERS)
def test_messages_and_offsets_survive_a_broker_restart(
    private_target: Target,
    java: Callable[[str], ScenarioRunner],
    go: ScenarioRunner,
    session_id: str,
    manner: str,
) -> None:
    runners = {
        "new": java("java-5.5.0-json"),
        "old": java("java-4.9.8-json"),
        "go": go,
    }
    for phase in ("offset_before_broker_restart", "offset_after_broker_restart"):
        futures = {
            name: runner.submit(
                phase,
                nameServer=private_target.name_server,
                broker=private_target.broker,
                run=session_id,
                **{"as": f"restart_{name}_{manner}"},
            )
            for name, runner in runners.items()
        }
        for name, future in futures.items():
            runners[name].result(future)
        if phase == "offset_before_broker_restart":
            restart(private_target, manner)


@pytest.mark.parametrize("manner", MANNERS)
def test_running_clients_survive_a_broker_restart(
    private_target: Target,
    java: Callable[[str], ScenarioRunner],
    go: ScenarioRunner,
    session_id: str,
    manner: str,
) -> None:
    runners = {
        "new": java("java-5.5.0-json"),
        "old": java("java-4.9.8-json"),
        "go": go,
    }

    def everywhere(scenario: str, **arguments: object) -> None:
        futures = {
            name: runner.submit(
                scenario,
                nameServer=private_target.name_server,
                broker=private_target.broker,
                run=session_id,
                **{"as": f"live_{name}_{manner}"},
                **arguments,
            )
            for name, runner in runners.items()
        }
        for name, future in futures.items():
            runners[name].result(future)

    everywhere("live_open")
    everywhere("live_send", count=100)
    restart(private_target, manner)
    everywhere("live_send", count=100)
    everywhere("live_send", count=20, verify="pull")
    everywhere("live_close")
