"""Thousands of random steps over a broker process, against a model of lists and numbers.

Sends of every kind, consumption, offsets, retries, transactions, topics, kills and restarts:
support/model/machine.py says what the steps are, support/model/queues.py what is right. A failure
is printed by hypothesis as the shortest sequence of steps it found.
"""

import contextlib
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from support.driven_clock import process_clock
from support.model.broker import ModelBroker
from support.model.machine import BrokerMachine

STEPS_A_RUN = 500
ENDS = 3  # at least so many kills, and so many restarts


def walk(directory: Path, steps: int) -> dict[str, int]:
    """Runs until so many steps are done, with enough kills and restarts among them. Returns the
    number of steps of each kind."""
    BrokerMachine.steps = {}
    how = settings(
        stateful_step_count=STEPS_A_RUN,
        deadline=None,
        database=None,
        derandomize=False,  # else each pass would take the same steps
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with contextlib.ExitStack() as stack:
        clock = stack.enter_context(process_clock(directory))
        BrokerMachine.broker = ModelBroker(directory, clock)
        stack.callback(BrokerMachine.broker.kill)
        while True:
            done = BrokerMachine.steps
            left = steps - sum(done.values())
            # The number of kills is random: with too few of them the walk goes on.
            if left <= 0 and min(done.get("kills", 0), done.get("restarts", 0)) >= ENDS:
                break
            # The first run of each call is hypothesis' simplest and does little; some end early.
            runs = 4 + min(max(left, 0), 10_000) // STEPS_A_RUN
            run_state_machine_as_test(BrokerMachine, settings=settings(how, max_examples=runs))
        log = BrokerMachine.broker.log()
    assert "is passed" not in log, log
    assert "Traceback" not in log, log
    told = ", ".join(f"{count} {what}" for what, count in sorted(BrokerMachine.steps.items()))
    print(f"{sum(BrokerMachine.steps.values())} steps: {told}", file=sys.stderr)
    return BrokerMachine.steps


@pytest.mark.timeout(1200)  # twenty seconds on an idle machine
def test_three_thousand_random_steps_agree_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps differ in each run. Kills and restarts come twice as often as in the long test."""
    monkeypatch.setattr(BrokerMachine, "restart_steps", 200)
    steps = walk(tmp_path, 3_000)
    assert sum(steps.values()) >= 3_000
    assert min(steps["kills"], steps["restarts"]) >= ENDS


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_half_a_million_random_steps_agree_with_the_model(tmp_path: Path) -> None:
    assert sum(walk(tmp_path, 500_000).values()) >= 500_000
