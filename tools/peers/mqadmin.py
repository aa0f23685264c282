"""Apache's mqadmin, one JVM for each call (about a second each).

    >>> print(mqadmin("127.0.0.1:9876", "clusterList"))
    #Cluster Name           #Broker Name            #BID  #Addr  ...

The tests run many commands in one JVM instead (tests/compat/java, scenario "mqadmin").
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.peers.cache import apache_jars, tool

MAIN_CLASS = "org.apache.rocketmq.tools.command.MQAdminStartup"


def mqadmin(name_server: str, *arguments: str, timeout: float = 60.0) -> str:
    """Run one command and return what it printed (both streams)."""
    with tempfile.TemporaryDirectory(prefix="rmq-mqadmin-") as home:
        (Path(home) / "rmq.logback.xml").write_text("<configuration/>\n")
        command = [
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
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
        )
    return done.stdout


if __name__ == "__main__":
    print(mqadmin(sys.argv[1], *sys.argv[2:]), end="")
