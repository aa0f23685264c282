"""Options of the test suite: pytest takes them from this folder only, whatever is selected."""

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("rmq", deadline=None)
settings.load_profile("rmq")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["rmq", "apache"],
        help="broker under test of tests/compat (default: rmq)",
    )
