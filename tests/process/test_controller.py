"""Goal: `rmq controller` says that it is ready and where it listens, and forgets nothing, whatever
ends it.

Method: the command as a process, which is asked at its port; signals by process id. Not shown here:
several controllers (tests/unit/controller).
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.controllers import Replica, in_sync
from support.etcd_server import etcd_server
from support.waiting import HANG_S

READY = re.compile(r"is ready in [\d.]+ s: controller (\S+):(\d+), state in (.+)")


class Process:
    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "rmq", "controller", "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = READY.search(line)
        assert found is not None, line
        self.port, self.where = int(found[2]), found[3]

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(HANG_S)


async def elected(port: int) -> None:
    async with Replica(port, 1) as one:
        await one.join()
        assert (await one.elect()).code == 0


async def kept(port: int) -> tuple[list[int], int]:
    async with Replica(port, 1) as one:
        return in_sync(await one.look())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_decided_survives_the_process(tmp_path: Path, number: signal.Signals) -> None:
    options = ("--store", str(tmp_path), "--set", f"configStorePath={tmp_path / 'c.properties'}")
    first = Process(*options)
    assert str(tmp_path) in first.where and "--etcd" in first.where
    asyncio.run(elected(first.port))
    second = subprocess.run(
        [sys.executable, "-m", "rmq", "controller", "--port", "0", *options],
        capture_output=True, text=True,
    )  # fmt: skip
    assert second.returncode != 0 and "is held by process" in second.stderr
    assert first.end(number) == (0 if number == signal.SIGTERM else -number)
    again = Process(*options)
    assert asyncio.run(kept(again.port)) == ([1], 1)
    assert again.end(signal.SIGTERM) == 0


def test_state_in_etcd_and_mistakes_that_say_what_helps(tmp_path: Path) -> None:
    config = ("--set", f"configStorePath={tmp_path / 'c.properties'}")
    with etcd_server(tmp_path) as etcd:
        first = Process("--etcd", etcd.endpoint, *config)
        assert first.where.strip() == f"etcd at {etcd.endpoint}"
        asyncio.run(elected(first.port))
        assert first.end(signal.SIGTERM) == 0
        again = Process("--etcd", etcd.endpoint, *config)  # leads at once: the lead was given up
        assert asyncio.run(kept(again.port)) == ([1], 1)
        assert again.end(signal.SIGTERM) == 0
    for options, text in (
        (("--etcd", "http://127.0.0.1:1"), "etcd does not answer"),
        (("--etcd", "127.0.0.1"), "is no URL"),
        (("--bind", "10.0.0.1"), "--insecure"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "rmq", "controller", "--port", "0", *config, *options],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode != 0 and text in done.stderr, done.stderr
