"""Apache RocketMQ's controller, alone in its group, on loopback.

    controller = ApacheController(Path("/tmp/x"), port=9878)
    controller.server.start()          # it leads then
    controller.address                 # "127.0.0.1:9878", where brokers and mqadmin ask it
    controller.server.kill()

Layout of the folder given: home/ (logs), conf/, state/ (its log of decisions), controller.log.
"""

from __future__ import annotations

from pathlib import Path

from rmq.codes import RequestCode
from tools.peers.apache import LOGBACK, LOGBACK_FILE
from tools.peers.cache import JAVA_OPENS, apache_jars, tool
from tools.peers.probe import ask
from tools.peers.server import Server


class ApacheController:
    """`settings` are lines of controller.conf."""

    def __init__(self, folder: Path, port: int, settings: dict[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{port}"
        conf = folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (folder / "home").mkdir(exist_ok=True)
        (conf / LOGBACK_FILE).write_text(LOGBACK)
        known = {
            "controllerType": "DLedger",
            "controllerDLegerGroup": "group1",
            "controllerDLegerPeers": f"n0-{self.address}",
            "controllerDLegerSelfId": "n0",
            "controllerStorePath": str(folder / "state"),
            "configStorePath": str(folder / "controller.properties"),
            "mappedFileSize": str(16 << 20),
            **(settings or {}),
        }
        lines = [f"{key}={value}\n" for key, value in known.items()]
        (conf / "controller.conf").write_text("".join(lines))
        command = [
            tool("java"),
            *JAVA_OPENS,
            "-Xms64m",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Duser.home={folder / 'home'}",
            "-cp",
            f"{conf}:{apache_jars()}/*",
            "org.apache.rocketmq.controller.ControllerStartup",
            "-c",
            str(conf / "controller.conf"),
        ]

        def leads() -> bool:
            try:
                _, header, _ = ask(("127.0.0.1", port), RequestCode.CONTROLLER_GET_METADATA_INFO)
            except (OSError, ValueError):
                return False
            return str(header.get("extFields", {}).get("isLeader")).lower() == "true"

        self.server = Server(
            "Apache controller",
            command,
            folder / "controller.log",
            leads,
            {"ROCKETMQ_HOME": str(folder)},
            ready_seconds=120,
        )
