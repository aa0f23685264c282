"""Faulty shard: a shard in its own process, on a disk that fails on demand (shard_worker, faults).

def test_x(start: Start, faults: Faults) -> None:
    worker = start(sync_flush=True)         # the fixture, which a conftest.py imports
    client = worker.connect()
    faults.fail("pwrite", errno.EIO, path="commitlog/")
    assert worker.ask("stats")["connections"] == 1
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.faults import Faults
from support.rmq_process import start_worker
from support.shard import TIMEOUT_S, Client
from support.waiting import wait_until_is


class Worker:
    """A shard_worker process and its clients."""

    def __init__(self, directory: Path, faults: Faults, options: dict[str, Any]) -> None:
        self.process = start_worker(
            "support.shard_worker", directory, json.dumps(options),
            environment=faults.environment(),
        )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.clients: list[Client] = []

    def connect(self) -> Client:
        self.clients.append(Client(self.port))
        return self.clients[-1]

    def ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def until(self, condition: Callable[[dict[str, Any]], bool], command: str = "stats") -> None:
        """Asks the command until the answer satisfies the condition."""
        wait_until_is(lambda: self.ask(command), condition, TIMEOUT_S, still=True)

    def stop(self) -> int:
        assert self.process.stdin is not None
        for client in self.clients:
            client.close()
        self.clients = []
        self.process.stdin.close()
        return self.process.wait(120)


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path, faults: Faults) -> Iterator[Start]:
    workers: list[Worker] = []

    def start(folder: str = "", **options: Any) -> Worker:
        (tmp_path / folder).mkdir(exist_ok=True)
        workers.append(Worker(tmp_path / folder, faults, options))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
        for client in worker.clients:
            client.close()
        for stream in (worker.process.stdin, worker.process.stdout):
            assert stream is not None
            stream.close()
