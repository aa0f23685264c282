"""Failure lines: a line for each failure at once, since a run that is broken off has no summary."""

from __future__ import annotations

import pytest

LINE_CHARS = 300


class FailureLines:
    """A plugin for the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = crash.message if crash is not None else str(report.longrepr)
            reporter.write_line("")
            when = "crashed" if report.when == "???" else report.when  # xdist's, of a lost worker
            reporter.write_line(f"failed: {report.nodeid} ({when}): {first_line(said)}")


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:LINE_CHARS]
