"""Volume: how many cases a test of any input tries, some in each run and many in `make test-slow`.

    @settings(max_examples=volume(1000, 3000))
    @pytest.mark.parametrize("seed", seeds(volume(2, 4)))

The cases differ from run to run, so that many runs try more. Hypothesis draws them at random, in CI
too, and keeps each that has failed (.hypothesis). Seeds begin at a random number, the same for all
workers of a run: RMQ_FIRST_SEED, which is printed when the run begins. A test has its seed in its
name; RMQ_FIRST_SEED=SEED makes a run begin with that seed.
"""

import os
import random

from hypothesis import settings

FULL = os.environ.get("RMQ_VOLUME") == "full"
# Workers inherit this from the environment of the process that starts them, which reads this file
# first.
FIRST_SEED = int(os.environ.setdefault("RMQ_FIRST_SEED", str(random.randrange(10**6))))


def volume(each_run: int, full: int) -> int:
    return full if FULL else each_run


def seeds(count: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + count)


def profile() -> settings:
    """Settings for Hypothesis. No deadline, because how long an example takes says how busy the
    machine is, and nothing about the code. With CI set, Hypothesis would by default draw the same
    examples in every run and keep none."""
    usual = settings.get_profile("default")
    return settings(deadline=None, derandomize=False, database=usual.database)
