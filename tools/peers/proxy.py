"""Proxy: Apache RocketMQ's proxy, in front of Apache's brokers or rmq's.

    settings = {"rocketMQClusterName": "DefaultCluster", "proxyMode": "CLUSTER"}
    proxy = ApacheProxy(Path("/tmp/x"), "127.0.0.1:9876", settings)
    proxy.server.start()               # about 10 s on two cores
    proxy.endpoints                    # "127.0.0.1:28081", what gRPC clients are given
    proxy.server.kill()

It creates a topic of its own when it starts, so brokers must be running. It listens on all
addresses, because none of its settings limits that. Layout of the folder given: home/ (logs),
conf/, proxy.log.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

from rmq.demo.ports import free_port
from tools.peers.apache import LOGBACK, LOGBACK_FILE, SMALL_JVM
from tools.peers.cache import APACHE_VERSION, HERE, JAVA_OPENS, fetch_dependencies, tool
from tools.peers.server import Server

MAIN_CLASS = "org.apache.rocketmq.proxy.ProxyStartup"


def proxy_jars() -> Path:
    return fetch_dependencies(
        f"proxy-{APACHE_VERSION}", HERE / "proxy_pom.xml", {"rocketmq.version": APACHE_VERSION}
    )


class ApacheProxy:
    """`settings` are members of rmq-proxy.json, except its ports and the name server."""

    def __init__(
        self,
        folder: Path,
        name_server: str,
        settings: Mapping[str, object],
    ) -> None:
        self.port = free_port()
        self.endpoints = f"127.0.0.1:{self.port}"
        conf = folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        home = folder / "home"
        home.mkdir(exist_ok=True)
        (conf / LOGBACK_FILE).write_text(LOGBACK)
        file = conf / "rmq-proxy.json"
        known = {
            **settings,
            "namesrvAddr": name_server,
            "grpcServerPort": self.port,
            "remotingListenPort": free_port(),
        }
        file.write_text(json.dumps(known, indent=2))
        command = [tool("java"), *JAVA_OPENS, "-Xms64m", "-Xmx256m", *SMALL_JVM]
        command += [f"-Duser.home={home}", "-cp", f"{conf}:{proxy_jars()}/*"]
        self.server = Server(
            "Apache proxy",
            [*command, MAIN_CLASS, "-pc", str(file)],
            folder / "proxy.log",
            self._listens,
            {"RMQ_PROXY_HOME": str(folder)},
            ready_seconds=300,
        )

    def _listens(self) -> bool:
        """Whether the proxy's port is open, which it opens when all else runs."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
