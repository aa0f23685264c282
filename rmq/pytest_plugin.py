"""Pytest plugin: a broker for tests; `pip install rmq` gives pytest the fixture rmq_broker.

    def test_order_is_paid(rmq_broker):
        with Producer("tests", namesrv_addr=rmq_broker.namesrv_addr) as producer:
            producer.send(Message("orders", b"paid"))

One broker with its name server runs for the whole session, on free ports of 127.0.0.1 and with a
store in a temporary directory; it is ready in less than a second. Topics are created by the first
send, so tests do not disturb each other if each uses topics of its own. `embedded_broker()` is the
same as a context manager.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

READY = re.compile(r"is ready in ([0-9.]+) s: name server (\S+), broker \S+ at (\S+),")
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
SETTINGS = {"mappedFileSizeCommitLog": str(64 << 20), "maxIndexNum": "200000",
            "maxHashSlotNum": "50000"}  # fmt: skip


class RunningBroker(msgspec.Struct, frozen=True):
    """A broker that runs. namesrv_addr is the address to give to clients."""

    namesrv_addr: str
    broker_addr: str
    store: Path
    ready_s: float
    process: subprocess.Popen[str]


@contextlib.contextmanager
def embedded_broker(
    store: Path, settings: Mapping[str, str] | None = None
) -> Iterator[RunningBroker]:
    """A broker with a name server, in a process of its own that ends with the block."""
    command = [sys.executable, "-m", "rmq", "standalone", "--store", str(store / "store")]
    command += ["--port", "0", "--namesrv-port", "0"]
    for name, value in {**SETTINGS, **(settings or {})}.items():
        command += ["--set", f"{name}={value}"]
    store.mkdir(parents=True, exist_ok=True)
    log = store / "rmq.log"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    assert process.stdout is not None
    watchdog = threading.Timer(READY_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        found = READY.search(line := process.stdout.readline())
        watchdog.cancel()
        if found is None:
            raise RuntimeError(f"no broker: {line}{log.read_text()[-2000:]}")
        yield RunningBroker(found[2], found[3], store / "store", float(found[1]), process)
    finally:
        watchdog.cancel()
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@pytest.fixture(scope="session")
def rmq_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker for the session's tests."""
    with embedded_broker(tmp_path_factory.mktemp("rmq")) as broker:
        yield broker
