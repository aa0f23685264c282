"""Options of the test suite: pytest takes them from this folder only, whatever is selected."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["rmq", "apache"],
        help="broker under test of tests/compat (default: rmq)",
    )
