"""A Redis (or Valkey) server of the distribution, for tests: on a Unix socket, without files.

with redis_server(tmp_path) as client: ...
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import HANG_S

PROGRAMS = ("redis-server", "valkey-server")


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[Any]:
    """A client of a server of its own; skips where there is no server or no client package."""
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
            until = time.monotonic() + HANG_S
            while True:
                try:
                    client.ping()
                    break
                except redis.exceptions.RedisError:
                    assert process.poll() is None, "the server ended"
                    assert time.monotonic() < until, "the server does not answer"
                    time.sleep(0.02)
            yield client
        finally:
            client.close()
            process.terminate()
