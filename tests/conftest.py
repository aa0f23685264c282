"""Options of the test suite: pytest takes them from this folder only, whatever is selected."""

import gc
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
from hypothesis import settings
from support import local_modules, rate_limits, volume
from support.driven_clock import DrivenClock, driven_clock
from support.failure_lines import FailureLines
from support.left_threads import left_since, running
from support.spread_folders import spread
from support.waiting import HANG_S

from rmq import pytest_plugin
from rmq.broker import core_options, siblings
from rmq.client.blocking import connection
from rmq.client.parameters.base import ClientParameters
from rmq.client.parameters.consumer import (
    PopConsumerParameters,
    PullConsumerParameters,
    PushConsumerParameters,
)
from rmq.client.parameters.producer import ProducerParameters, TransactionProducerParameters
from shards.command_client import CommandClient

settings.register_profile("rmq", volume.profile())
settings.load_profile("rmq")
local_modules.know_this_tree()
# No test multiplies matrices. The threads that numpy starts for that, one for each processor in
# each process that imports numpy, would only look for work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# A busy machine answers, connects and starts late, so the default timeouts are long here. A test
# that waits in vain gives a timeout of its own. What parameters say about themselves stays as it is
# (dataclasses.fields, and the pages that are made of them).
connection.CALL_TIMEOUT = HANG_S
connection.Connection.__init__.__defaults__ = (HANG_S,)
for _parameters in (
    PopConsumerParameters, ProducerParameters, PullConsumerParameters, PushConsumerParameters,
    TransactionProducerParameters, ClientParameters,
):  # fmt: skip
    for _name in ("mq_client_api_timeout", "send_msg_timeout"):
        if _name in _parameters.__init__.__kwdefaults__:
            _parameters.__init__.__kwdefaults__[_name] = int(HANG_S * 1000)
CommandClient.__init__.__defaults__ = (HANG_S,)
CommandClient.ask.__defaults__ = (HANG_S,)
# A broker of this process answers only when its name servers have the change.
siblings.ROUTE_WAIT_S = HANG_S
pytest_plugin.READY_TIMEOUT_S = pytest_plugin.STOP_TIMEOUT_S = HANG_S
rate_limits.watch()
# The same for all of some thousand brokers, so it is looked up once.
core_options.memory_bytes = cache(core_options.memory_bytes)


# The objects that pytest makes for 7,000 tests live to the end. Collections of garbage would walk
# through them again and again, for a tenth of what a run costs.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()  # garbage, too: to find it would cost each worker a second
    gc.set_threshold(20_000)  # as in processes of rmq
    gc.enable()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A test must leave the handlers of the log and the threads of this process as they were. A
    thread that is left would use the clock that the next test drives. Which lines of the log are
    held back is forgotten."""
    root = logging.getLogger()
    before, threads = root.handlers[:], running()
    yield
    rate_limits.forget()
    assert left_since(threads) == [], "the test has left these threads"
    assert [each for each in root.handlers if each not in before] == []


@pytest.fixture(scope="session", autouse=True)
def _spread_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    spread(tmp_path_factory.getbasetemp())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=["rmq", "apache"],
        help="broker under test of tests/compat (default: rmq)",
    )
    parser.addoption(
        "--record-durations", action="store_true", help="what support/scheduler.py goes by"
    )
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails the run")


def pytest_report_header() -> str:
    return f"RMQ_FIRST_SEED={volume.FIRST_SEED}"


def pytest_configure(config: pytest.Config) -> None:
    # Jobs that a shell runs in the background ignore Ctrl-C, those of nohup a closed terminal, and
    # so do all processes that they start. Commands that tests end by these signals would go on.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailureLines(config))
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        from support.scheduler import Recorder

        config.pluginmanager.register(Recorder())


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Replaces the scheduler of --dist loadfile; xdist's other schedulers stay as they are."""
    if config.getvalue("dist") != "loadfile":
        return None
    from support.scheduler import LongestFirst

    return LongestFirst(config, log)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With --no-skips a skipped test fails the run: on a machine that has all that tests need, no
    test may be left out unnoticed. Workers of xdist have no reporter, and no say in this."""
    gc.freeze()  # pytest collects garbage five times before it ends
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (
        session.config.getoption("--no-skips")
        and reporter is not None
        and (skipped := len(reporter.stats.get("skipped", ())))
    ):
        reporter.write_line("")
        reporter.write_line(f"{skipped} skipped: install what they name, or set RMQ_SKIPS=allow")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> Iterator[DrivenClock]:
    """The driven clock of this process. It must be a test's first argument, so that all that is
    made for the test uses this clock."""
    is_still = request.node.get_closest_marker("still_clock") is not None
    with driven_clock() as clock, clock.standing_still() if is_still else nullcontext():
        yield clock
