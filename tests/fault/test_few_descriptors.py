"""Goal: a process that may open few files serves all the same: it takes the connections that it can
hold and closes the others, keeps room for files and for an operator's tool, and neither spins nor
fills the log.

Method: `rmq standalone` under RLIMIT_NOFILE, more idle connections than it can hold on both ports,
and beside them an ordinary client and the command line; processor time and log of the process.
Cannot prove: a machine that is out of files as a whole (ENFILE).
"""

import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.broker_client import BrokerClient
from support.broker_process import BrokerProcess, broker_process, command, with_files
from support.waiting import HANG_S, until, wait_until

SETTINGS = ["--set", "mappedFileSizeCommitLog=16777216"]


def cpu_seconds(broker: BrokerProcess) -> float:
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    host, _, port = address.rpartition(":")
    clients = []
    for _ in range(count):
        client = stack.enter_context(socket.socket())
        client.settimeout(HANG_S)
        client.connect((host, int(port)))
        clients.append(client)
    return clients


async def exchange(broker: BrokerProcess) -> None:
    """An ordinary client sends and reads back."""

    async def is_served() -> bool:
        try:
            async with BrokerClient(broker.port, "ordinary@1") as client:
                reply = await client.send("served", b"x", 0)
        # All connections are new; one makes room in a second.
        except (OSError, EOFError, asyncio.IncompleteReadError):
            return False
        assert reply.code == 0, reply.remark
        return True

    await until(is_served)


def cluster_list(broker: BrokerProcess) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmq", "broker", "status", "-n", broker.namesrv],
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip


@pytest.mark.parametrize(("limit", "idle"), [(64, 80), (1024, 1100)])
def test_with_more_idle_clients_than_files_others_are_served(
    tmp_path: Path, limit: int, idle: int
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * idle + 300
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} descriptors a process")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with (
            broker_process(tmp_path, SETTINGS, before=with_files(limit, limit)) as broker,
            ExitStack() as s,
        ):
            assert f"at most {limit} open files" in broker.log()
            assert "less than rmqMaxConnections=16384" in broker.log()
            assert "rmqMaxConnectionsPerAddress" not in broker.log(), "it was not given"
            asyncio.run(exchange(broker))
            for address in (broker.namesrv, broker.address):
                crowd(s, address, idle)
            lines, came = broker.log().count("\n"), time.monotonic()
            asyncio.run(exchange(broker))
            used, began = cpu_seconds(broker), time.monotonic()
            time.sleep(3)
            used = cpu_seconds(broker) - used
            # Processor time of all threads: the process does not spin.
            assert used < (time.monotonic() - began) / 2
            assert broker.log().count("\n") - lines < 10 * (time.monotonic() - came)
            assert "Traceback" not in broker.log()
            # The latest client that asks is served, at the name server too: silent connections make
            # room.
            wait_until(lambda: cluster_list(broker).returncode == 0)
            asyncio.run(exchange(broker))
            files = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
            assert files < limit, "nothing is left for files"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_to_the_hard_one_and_said(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip(f"only {hard} descriptors a process")
    with broker_process(tmp_path, SETTINGS, before=with_files(256, 4096)) as broker:
        limits = Path(f"/proc/{broker.pid}/limits").read_text()
        line = next(each for each in limits.splitlines() if each.startswith("Max open files"))
        assert line.split()[3:5] == ["4096", "4096"]
        assert broker.log().count("at most 4096 open files (raised from 256)") == 1


def test_too_few_files_are_refused_with_what_to_do(tmp_path: Path) -> None:
    done = subprocess.run(
        [*with_files(40, 40), *command(tmp_path / "store")],
        capture_output=True, text=True, timeout=HANG_S,
    )  # fmt: skip
    assert done.returncode != 0
    assert "the limit of open files is 40" in done.stderr and "ulimit -n" in done.stderr
