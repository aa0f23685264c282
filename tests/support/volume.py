"""Volume: how many cases a test of any input tries, some in each run and many in `make test-slow`.

    @settings(max_examples=volume(1000, 3000))

Hypothesis draws other ones each time and keeps what failed once (.hypothesis), so that runs add up.
"""

import os

FULL = os.environ.get("RMQ_VOLUME") == "full"


def volume(each_run: int, full: int) -> int:
    return full if FULL else each_run
