"""The web console while its brokers go and come back; its pages are in test_console_pages.py."""

from __future__ import annotations

from pathlib import Path

from support.broker_process import broker_process
from support.console import served_console, text_of
from support.waiting import wait_until

from rmq.console.settings import ConsoleSettings


def test_a_cluster_that_is_gone_is_said_and_found_again(tmp_path: Path) -> None:
    with broker_process(tmp_path) as broker:
        ports = ("--port", str(broker.port), "--namesrv-port", broker.namesrv.rpartition(":")[2])
        with served_console(ConsoleSettings(broker.namesrv)) as console:
            assert "broker-a" in text_of(console.get("/brokers").text)
            broker.stop()
            wait_until(lambda: console.get("/brokers").status_code == 503)
            assert "no name server answers" in text_of(console.get("/brokers").text)
            with broker_process(tmp_path, ports):
                wait_until(lambda: console.get("/brokers").status_code == 200)
                assert "broker-a" in text_of(console.get("/brokers").text)
