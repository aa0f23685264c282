"""Goal: while a log is opened anew, the current step and its duration are logged, and told to
whoever asks.

Method: HTTP requests to the metrics port of a broker whose core is in memory, and looks at a thread
that waits. Not shown here: that a real cut is watched (tests/fault/test_slow_cuts.py).
"""

from __future__ import annotations

import asyncio
import re
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from support.fake_core import control
from support.name_server import in_loop
from support.waiting import HANG_S, wait_until

from rmq.broker.reactor_watch import SLOW_S
from rmq.broker.status.store_reopening import StoreReopening
from rmq.config import load_properties
from rmq.demo.ports import free_port

LIMIT_S = 20


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=HANG_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@in_loop
async def test_who_asks_for_health_is_told_what_is_done_and_for_how_long(tmp_path: Path) -> None:
    port = free_port()
    given = {"metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
    async with control(tmp_path, **given) as broker:
        broker.core.counters["turns"] = 9
        reopening = StoreReopening(broker.settings, "cut at 8700", broker.sampler.take(brief=True))
        assert broker.status is not None
        await broker.status.stop()  # as broker.stop() does
        async with reopening:
            reopening.step("reading")
            code, text = await asyncio.to_thread(asked, port, "/readyz")
            assert code == 503
            assert re.fullmatch(
                r"reopening for \d+ s: the log is cut at 8700, step reading for \d+ s\n", text
            )
            assert await asyncio.to_thread(asked, port, "/healthz") == (200, "ok\n")
            for path in ("/metrics", "/metrics/own"):
                code, text = await asyncio.to_thread(asked, port, path)
                assert code == 200 and re.search(r"^rmq_reactor_standing_seconds\{.* \d+$", text,
                                                 re.MULTILINE)  # fmt: skip
                assert re.search(r"^rmq_turns_total\{.* 9$", text, re.MULTILINE), "no count is lost"
        await broker.status.start()  # the port must be free
        assert await asyncio.to_thread(asked, port, "/readyz") == (200, "ok\n")


@in_loop
async def test_without_metrics_there_is_no_port(tmp_path: Path) -> None:
    port = free_port()
    settings = load_properties(None, {"metricsPromExporterPort": str(port)})
    async with StoreReopening(settings, "cut at 8700", None):
        with pytest.raises(urllib.error.URLError, match="refused"):
            await asyncio.to_thread(asked, port, "/readyz")


def test_a_step_that_lasts_is_in_the_log_with_what_its_thread_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks_at_a_waiting_thread()
    where = "step cutting has taken {} s: its thread sleeps"
    said = [each.getMessage() for each in caplog.records if "the log is cut" in each.getMessage()]
    assert len(said) == 3, said
    assert said[0].startswith(f"the log is cut at 8700, and {where.format(SLOW_S)}")
    assert said[1].startswith(f"stuck: the log is cut at 8700, and {where.format(LIMIT_S)}")
    assert said[2] == f"the log is cut at 8700: it goes on, after a step of {LIMIT_S + 3} s"


def looks_at_a_waiting_thread() -> None:
    settings = load_properties(None, {"rmqStuckReactorSeconds": str(LIMIT_S)})
    reopening = StoreReopening(settings, "cut at 8700", None)
    begun, goes_on, next_begun, ends = (threading.Event() for _ in range(4))

    def work() -> None:
        reopening.step("cutting")
        begun.set()
        goes_on.wait()
        reopening.step("mending")
        next_begun.set()
        ends.wait()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        begun.wait()
        wait_until(lambda: (found := reopening._thread()) is not None and found.state == "S")
        for _ in range(LIMIT_S + 4):  # the first look sees that the step is a new one
            reopening.watch.look()
        assert reopening.watch.standing_s == LIMIT_S + 3
        goes_on.set()
        next_begun.wait()
        reopening.watch.look()
        assert reopening.watch.standing_s == 0
        assert reopening.watch.async_log.wait(HANG_S)
    finally:
        goes_on.set()
        ends.set()
        thread.join()
        reopening.watch.stop()
