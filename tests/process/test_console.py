"""`rmq console` as a process: where it listens, when it refuses to start, brokers that go and come
back, and what a large cluster costs it.

Method: real processes of broker and console, and a browser without a screen. Cannot show: how fast
it is, as other programs use the machine, too; docs/console.md says what was measured.
"""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from support.broker_process import broker_process, start_broker
from support.certificates import Authority
from support.command_line import rmq
from support.console import NOBODY, served_console, text_of
from support.console_process import console_process
from support.large_cluster import fill
from support.passage import Passage
from support.waiting import wait_until

from rmq.client.blocking.transport import SocketTransport
from rmq.console.settings import ConsoleSettings
from rmq.demo.ports import free_port

TOPICS, GROUPS = 1000, 200
RSS_MAX = 60 << 20


def test_it_says_where_it_is_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with console_process(tmp_path, NOBODY, "--read-only") as console:
        assert console.ready_line.endswith(f"name servers {NOBODY}, read-only\n")
        assert console.browser.get("/").status_code == 503
        assert "read-only" in console.browser.get("/login").text
        assert console.stop() == 0


def test_ctrl_c_is_no_failure(tmp_path: Path) -> None:
    with console_process(tmp_path, NOBODY) as console:
        console.process.send_signal(signal.SIGINT)
        assert console.process.wait(600) == 0


def test_brokers_that_go_away_are_missed_and_found_again(tmp_path: Path) -> None:
    ports = ["--namesrv-port", str(free_port()), "--port", str(free_port())]
    with broker_process(tmp_path, ports) as broker, console_process(
        tmp_path, broker.namesrv
    ) as console:  # fmt: skip
        browser = console.browser
        assert "running" in text_of(browser.get("/").text)
        broker.stop(signal.SIGKILL)
        wait_until(lambda: browser.get("/").status_code == 503)
        lost = browser.get("/")
        assert "The brokers do not answer" in text_of(lost.text)
        assert 'id="live" hx-get="/"' in lost.text  # the page asks again by itself
        again = start_broker(tmp_path, ports)
        try:
            wait_until(lambda: "running" in text_of(browser.get("/").text))
            assert browser.get("/topics").status_code == 200
        finally:
            again.stop()
            assert again.process.stdout is not None
            again.process.stdout.close()


def refused(*words: str) -> str:
    done = rmq("console", *words)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_it_refuses_to_let_strangers_in(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("correct horse\n")
    pair = Authority(tmp_path).pair("console")
    https = ("--https-cert", str(pair.certificate), "--https-key", str(pair.key))
    with broker_process(tmp_path) as broker:
        asked = ("-n", broker.namesrv, "--listen", "0.0.0.0:0")
        assert "unencrypted" in refused(*asked)
        assert "unencrypted" in refused(*asked, "--password-file", str(password))
        assert "require no accounts" in refused(*asked, *https)
        assert "must be given together" in refused(*asked, *https[:2])
        with console_process(
            tmp_path, broker.namesrv, "--listen", "0.0.0.0:0", *https, "--password-file",
            str(password), verify=False,
        ) as console:  # fmt: skip
            port = console.base.rpartition(":")[2]
            browser = console.browser
            browser.base = f"https://127.0.0.1:{port}"
            browser.client.base_url = browser.base
            assert browser.get("/").status_code == 303
            assert browser.log_in("", "wrong horse").status_code == 403
            assert browser.log_in("", "correct horse").status_code == 303
            assert "running" in text_of(browser.get("/").text)
        with console_process(
            tmp_path, broker.namesrv, "--listen", "0.0.0.0:0", "--insecure"
        ) as console:  # fmt: skip
            console.browser.client.base_url = console.base.replace("0.0.0.0", "127.0.0.1")
            assert console.browser.get("/").status_code == 200
    password.write_text("short\n")
    assert "at least 8" in refused("--password-file", str(password))


def test_an_account_for_brokers_that_ask_nobody_is_not_used(tmp_path: Path) -> None:
    """As one that stands in the environment for all commands."""
    given = {"RMQ_ACCESS_KEY": "alice", "RMQ_SECRET_KEY": "wonderland"}
    with broker_process(tmp_path) as broker, Passage(broker.namesrv) as passage:
        with console_process(tmp_path / "a", broker.namesrv, environment=given) as console:
            assert "running" in text_of(console.browser.get("/").text)
            assert "the one that was given is not used" in console.log()
        passage.shut()
        with console_process(tmp_path / "b", passage.address, environment=given) as console:
            passage.open()
            assert console.browser.get("/").status_code == 303
            refused = console.browser.log_in("alice", "wonderland")
            assert refused.status_code == 403
            assert "Start the console again while they answer" in text_of(refused.text)


def test_a_port_in_use_and_words_that_are_no_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "name another port" in refused("--listen", f"127.0.0.1:{port}")
    for bad in ("8080", "rmq.example:80", "127.0.0.1:x"):
        assert "such as 127.0.0.1:8080" in refused("--listen", bad)
    for bad in ("rmq.example", "ftp://x", "https://x/path"):
        assert "give the URL of the console" in refused("--origin", bad)


def test_a_large_cluster_costs_a_few_requests_and_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    invoke = SocketTransport.invoke

    def counted(self: SocketTransport, address: str, request: object, *more: object) -> object:
        asked.append(request.code)  # type: ignore[attr-defined]
        return invoke(self, address, request, *more)  # type: ignore[arg-type]

    with broker_process(tmp_path) as broker:
        fill(broker.namesrv, TOPICS, GROUPS)
        with console_process(tmp_path, broker.namesrv, is_fork=False) as console:
            for path in (
                "/",
                "/topics",
                "/groups",
                "/topics?page=20",
                "/groups?page=4",
                "/brokers",
            ):
                assert console.browser.get(path).status_code == 200, path
            assert "topic-0049" in console.browser.get("/topics").text
            assert "topic-0050" not in console.browser.get("/topics").text
            assert "Page 1 of 20, 1,000 in all" in text_of(console.browser.get("/topics").text)
            assert "Page 1 of 4, 200 in all" in text_of(console.browser.get("/groups").text)
            assert console.rss_bytes() <= RSS_MAX
        monkeypatch.setattr(SocketTransport, "invoke", counted)
        with served_console(ConsoleSettings(broker.namesrv)) as browser:
            wait_until(lambda: asked)  # the console has asked the brokers, for its history
            for path, most in (("/", 8), ("/topics", 8), ("/groups", 8)):
                asked.clear()
                assert browser.get(path).status_code == 200
                assert len(asked) <= most, (path, asked)
