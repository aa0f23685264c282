"""Goal: statuses become the right exceptions and the clocks count in the units they name.

Method: call the compiled functions. Cannot prove: that a clock never jumps.
"""

import time

import pytest

from cext.base import clock
from cext.base.status import Status, raise_status
from rmq import errors


@pytest.mark.parametrize("status", [0, 1, 4096])
def test_ok_and_counts_raise_nothing(status):
    assert raise_status(status, "anything") == 0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.POISONED, errors.StorePoisonedError),
        (Status.CORRUPT, errors.StoreCorruptError),
        (Status.NO_SPACE, errors.StoreError),
        (Status.MALFORMED, errors.ProtocolError),
        (Status.RING_FULL, errors.RmqError),
    ],
)
def test_a_failing_status_becomes_its_exception_and_names_itself(status, kind):
    with pytest.raises(kind, match=f"commit log: {status.name}"):
        raise_status(status, "commit log")


def test_an_unknown_status_still_raises():
    with pytest.raises(errors.RmqError, match="status -99"):
        raise_status(-99)


def test_wall_clock_is_milliseconds_since_1970():
    assert abs(clock.wall_ms_for_tests() - time.time() * 1000) < 1000


def test_monotonic_clock_is_microseconds():
    assert abs(clock.monotonic_us_for_tests() - time.monotonic() * 1e6) < 1e6
