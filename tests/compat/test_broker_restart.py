"""What clients keep when the broker is restarted, by SIGTERM and by SIGKILL.

The test ends and starts the broker between two scenarios of the Java or Go client. A kill loses at
most the offsets of the last flushConsumerOffsetInterval (1 s here), and never an acknowledged
message. Not shown here: a power cut (tests/fault has the store's own tests).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from compat.runner import ScenarioRunner
from compat.targets import Target

MANNERS = ["clean", "kill"]
OFFSET_FLUSH_SECONDS = 6


class Everywhere:
    """All clients run a scenario at the same time, each with topics and groups of its own."""

    def __init__(self, runners: dict[str, ScenarioRunner], target: Target, run: str) -> None:
        self._runners, self._target, self._run = runners, target, run

    def __call__(self, scenario: str, marks: str, **arguments: object) -> None:
        futures = {
            name: runner.submit(
                scenario,
                nameServer=self._target.name_server,
                broker=self._target.broker,
                run=self._run,
                **{"as": marks.format(name)},
                **arguments,
            )
            for name, runner in self._runners.items()
        }
        for name, future in futures.items():
            self._runners[name].result(future)


@pytest.fixture
def everywhere(
    private_target: Target,
    java: Callable[[str], ScenarioRunner],
    go: ScenarioRunner,
    session_id: str,
) -> Everywhere:
    runners = {"new": java("java-5.5.0-json"), "old": java("java-4.9.8-json"), "go": go}
    return Everywhere(runners, private_target, session_id)


def restart(target: Target, manner: str) -> None:
    time.sleep(OFFSET_FLUSH_SECONDS)
    target.end(manner)
    target.start()


@pytest.mark.parametrize("manner", MANNERS)
def test_messages_and_offsets_survive_a_broker_restart(
    private_target: Target, everywhere: Everywhere, manner: str
) -> None:
    marks = f"restart_{{}}_{manner}"
    everywhere("offset_before_broker_restart", marks)
    restart(private_target, manner)
    everywhere("offset_after_broker_restart", marks)


@pytest.mark.parametrize("manner", MANNERS)
def test_running_clients_survive_a_broker_restart(
    private_target: Target, everywhere: Everywhere, manner: str
) -> None:
    marks = f"live_{{}}_{manner}"
    everywhere("live_open", marks)
    everywhere("live_send", marks, count=100)
    restart(private_target, manner)
    everywhere("live_send", marks, count=100)
    everywhere("live_send", marks, count=20, verify="pull")
    everywhere("live_close", marks)
