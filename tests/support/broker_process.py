"""Broker process: a broker with its name server in a process of its own, on free ports.

with broker_process(tmp_path) as broker:
    broker.namesrv, broker.address, broker.pid, broker.ready_seconds
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support import shard_forks
from support.calm_clock import calm_seconds
from support.rmq_process import AnyProcess, start_rmq
from support.waiting import HANG_S, wait_until

READY = re.compile(
    r"is ready in [\d.]+ s: name server (?P<namesrv>\S+), broker \S+ at (?P<address>\S+),"
)
# A broker refuses sends after 200 ms when a write before them is slow, which happens easily on a
# busy machine. tests/fault/test_flow_control.py tests the refusal; other tests do not want it.
PATIENT = ("--set", "waitTimeMillsInSendQueue=60000", "--set", "osPageCacheBusyTimeOutMills=60000",
           "--set", "syncFlushTimeout=60000")  # fmt: skip


@dataclass
class BrokerProcess:
    process: AnyProcess
    store: Path
    namesrv: str
    address: str
    ready_line: str
    ready_seconds: float  # from exec to the ready line, by calm_clock.py
    log_path: Path
    stop_seconds: float = field(default=0.0)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def log(self) -> str:
        return self.log_path.read_text()

    def logged(self, pattern: str) -> re.Match[str]:
        """Waits until the log matches the pattern, since a line may appear later than the event
        that it reports. Returns the match."""
        wait_until(lambda: re.search(pattern, self.log()))
        found = re.search(pattern, self.log())
        assert found is not None
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Sends the signal, waits, and returns the exit code."""
        began = calm_seconds(disk=True)  # without waits for a disk that others use, too
        self.process.send_signal(number)
        code = self.process.wait(HANG_S)
        self.stop_seconds = calm_seconds(disk=True) - began
        return code

    def close(self) -> None:
        """Call it when the process has ended."""
        if self.process.stdout is not None:
            self.process.stdout.close()


def words(store: Path, *options: str) -> list[str]:
    """The words of the command line behind `rmq`."""
    return ["standalone", "--store", str(store), "--namesrv-port", "0", "--port", "0", *options]


def command(store: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "rmq", *words(store, *options)]


def with_files(soft: int, hard: int) -> list[str]:
    """The words in front of a command that must run with these limits of open files."""
    return ["/bin/sh", "-c", f'ulimit -S -n {soft} && ulimit -H -n {hard} && exec "$0" "$@"']


def start_broker(
    directory: Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (), is_fork: bool = True,
) -> BrokerProcess:  # fmt: skip
    """Starts `rmq standalone` on directory/store with the settings of PATIENT, and waits for its
    ready line. For the other parameters see start_rmq."""
    directory.mkdir(exist_ok=True)
    store = directory / "store"
    log_path = directory / "broker.txt"
    began = calm_seconds()
    forks_shards = "--shards" in options and is_fork and not before
    with log_path.open("a") as log:
        process = start_rmq(
            words(store, *PATIENT, *options), stderr=log, environment=environment, before=before,
            in_child=shard_forks.begin if forks_shards else None, is_fork=is_fork,
        )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    ready_seconds = calm_seconds() - began
    found = READY.search(line)
    if found is None:
        process.kill()
        process.wait()
        process.stdout.close()
        raise AssertionError(f"not ready: {line!r}\n{log_path.read_text()}")
    return BrokerProcess(
        process, store, found["namesrv"], found["address"], line, ready_seconds, log_path
    )


@contextmanager
def broker_process(
    directory: Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (), is_fork: bool = True,
) -> Iterator[BrokerProcess]:  # fmt: skip
    """A broker that runs during the block. It is stopped by SIGTERM, and killed if that does not
    end it."""
    broker = start_broker(directory, options, environment, before, is_fork)
    try:
        yield broker
    finally:
        if broker.process.poll() is None:
            try:
                broker.stop()
            except subprocess.TimeoutExpired:
                broker.process.kill()
                broker.process.wait()
        broker.close()
