"""Redis server: the distribution's Redis (or Valkey) server on a Unix socket, without files.

with redis_server(tmp_path) as client: ...
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

PROGRAMS = ("redis-server", "valkey-server")


def answers(client: Any, process: subprocess.Popen[bytes]) -> bool:
    from redis.exceptions import RedisError

    try:
        client.ping()
    except RedisError:
        assert process.poll() is None, "the server ended"
        return False
    return True


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[Any]:
    """Starts a server; yields a client of it. Skips the test if the server or the client package is
    not installed."""
    redis = pytest.importorskip("redis", reason="the package redis (rmq[redis]) is not installed")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no redis-server and no valkey-server: apt-get install redis-server")
    path = folder / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly",
               "no", "--dir", str(folder)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        client = redis.Redis(unix_socket_path=str(path))
        try:
            wait_until(lambda: answers(client, process), still=True)
            yield client
        finally:
            client.close()
            process.terminate()
