"""Options of the test suite: pytest takes them from this folder only, whatever is selected."""

from collections.abc import Iterator

import pytest
from hypothesis import settings
from support.driven_clock import DrivenClock, driven_clock

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("rmq", deadline=None)
settings.load_profile("rmq")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["rmq", "apache"],
        help="broker under test of tests/compat (default: rmq)",
    )


@pytest.fixture
def clock() -> Iterator[DrivenClock]:
    """The clock of this process. First of a test's arguments: what it makes goes by it."""
    with driven_clock() as clock:
        yield clock
