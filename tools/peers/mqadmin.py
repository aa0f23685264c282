"""Mqadmin: Apache's admin command, one JVM for each call (about a second each).

    >>> print(mqadmin("127.0.0.1:9876", "clusterList"))
    #Cluster Name           #Broker Name            #BID  #Addr  ...

The tests run many commands in one JVM instead (tests/compat/java, scenario "mqadmin").
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.peers.cache import apache_jars, tool

MAIN_CLASS = "org.apache.rocketmq.tools.command.MQAdminStartup"


def mqadmin(name_server: str, *arguments: str, timeout: float = 60.0) -> str:
    """Runs one command and returns what it printed (both streams)."""
    with tempfile.TemporaryDirectory(prefix="rmq-mqadmin-") as home:
        done = subprocess.run(
            _command(home, name_server, arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )
    return done.stdout


@contextmanager
def endless_mqadmin(name_server: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a command that does not end by itself (clusterRT, startMonitoring) for the time of the
    block; its stdout has both streams."""
    with tempfile.TemporaryDirectory(prefix="rmq-mqadmin-") as home:
        process = subprocess.Popen(
            _command(home, name_server, arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


def _command(home: str, name_server: str, arguments: Iterable[str]) -> list[str]:
    (Path(home) / "rmq.logback.xml").write_text("<configuration/>\n")
    return [
        tool("java"),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Duser.home={home}",
        f"-Drocketmq.namesrv.addr={name_server}",
        "-cp",
        f"{home}:{apache_jars()}/*",
        MAIN_CLASS,
        *arguments,
    ]


if __name__ == "__main__":
    print(mqadmin(sys.argv[1], *sys.argv[2:]), end="")
