"""Etcd server: the distribution's etcd, one member on loopback, with its files in a folder.

with etcd_server(tmp_path) as etcd: ... etcd.endpoint, etcd.pause(), etcd.go_on()
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stopping import stand_still
from support.waiting import wait_until

from rmq.demo.ports import free_port


class EtcdServer:
    def __init__(self, process: subprocess.Popen[bytes], endpoint: str) -> None:
        self.process = process
        self.endpoint = endpoint

    def pause(self) -> None:
        stand_still(self.process.pid)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wait(self) -> None:
        """Waits until it answers."""
        wait_until(self._answers, still=True)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.endpoint}/health", timeout=1).close()
        except (urllib.error.URLError, OSError):
            assert self.process.poll() is None, "etcd ended"
            return False
        return True


@contextlib.contextmanager
def etcd_server(folder: Path) -> Iterator[EtcdServer]:
    """An etcd for the block; skips the test if none is installed."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("no etcd: apt-get install etcd-server")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        *(program, "--name", "n1", "--data-dir", str(folder / "etcd")),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"n1={peer}", "--log-level", "error"),
        "--unsafe-no-fsync",  # a disk may be busy, and no test is about etcd's own safety
    ]
    with (folder / "etcd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    server = EtcdServer(process, client)
    try:
        server.wait()
        yield server
    finally:
        server.go_on()
        process.terminate()
        process.wait()
