"""Volume: how many cases a test of any input tries, some in each run and many in `make test-slow`.

    @settings(max_examples=volume(1000, 3000))
    @pytest.mark.parametrize("seed", seeds(volume(2, 4)))

They are other ones each time, so that runs add up. Hypothesis draws them, on machines of CI as on
any, and keeps what failed once (.hypothesis). Seeds begin by chance, for all workers of a run at
the same number: RMQ_FIRST_SEED, which the run says at its beginning. A test has its seed in its
name, and RMQ_FIRST_SEED=SEED has a run begin with that one.
"""

import os
import random

from hypothesis import settings

FULL = os.environ.get("RMQ_VOLUME") == "full"
# Workers have the environment of the process that starts them, which reads this file first.
FIRST_SEED = int(os.environ.setdefault("RMQ_FIRST_SEED", str(random.randrange(10**6))))


def volume(each_run: int, full: int) -> int:
    return full if FULL else each_run


def seeds(count: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + count)


def profile() -> settings:
    """How long an example takes says how busy the machine is, and nothing of the code. Where CI is
    set, Hypothesis would draw the same examples in every run, and keep none."""
    usual = settings.get_profile("default")
    return settings(deadline=None, derandomize=False, database=usual.database)
