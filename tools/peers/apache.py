"""Apache RocketMQ: a name server and a broker on loopback, with heaps for a shared machine.

    broker = ApacheStandalone(Path("/tmp/x"), name_server_port=9876, broker_port=10911)
    broker.start()                     # about 9 s on two cores
    ...
    broker.stop()                      # or broker.kill()

With version="4.9.7" that version of RocketMQ is started; all else is the same.

Layout of the folder given: home/ (logs, name server's files), store/ (the broker's store), conf/,
*.log. A broker uses listenPort, listenPort - 2 (its "fast" port) and listenPort + 1 (HA).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rmq.names import SELF_TEST_TOPIC
from tools.peers.cache import APACHE_VERSION, JAVA_OPENS, apache_jars, tool
from tools.peers.probe import answers, has_route
from tools.peers.server import Server

# This file is found before the one inside the jars, which logs a page about its own set-up to
# standard output.
LOGBACK_FILE = "rmq.logback.xml"
LOGBACK = """<configuration>
  <appender name="console" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %c{0} %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""
# RocketMQ 4 reads these. Its classes are those of the log library itself, not of a renamed copy.
LOGBACK_4_FILES = ("logback_namesrv.xml", "logback_broker.xml")
LOGBACK_4 = LOGBACK.replace("org.apache.rocketmq.logging.", "")

# By default a request that has waited in the send queue for 200 ms is refused. On a busy machine
# one-way messages would vanish for that reason, which says nothing about the protocol.
BROKER_DEFAULTS = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "waitTimeMillsInSendQueue": "10000",
    "mappedFileSizeCommitLog": str(64 * 1024 * 1024),
}

SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # starts fast; not for measuring
DIRECT_MEMORY = "-XX:MaxDirectMemorySize=512m"
# The options of bin/runbroker.sh, except the sizes of memory.
SCRIPT_JVM = (
    "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25",
    "-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0",
    "-XX:-OmitStackTraceInFastThrow", "-XX:+AlwaysPreTouch", "-XX:-UseLargePages",
)  # fmt: skip


class ApacheStandalone:
    """Name server and broker; `settings` are lines of broker.conf."""

    def __init__(
        self,
        folder: Path,
        name_server_port: int,
        broker_port: int,
        settings: dict[str, str] | None = None,
        store: Path | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = SMALL_JVM,
        name_server_heap_max: str = "64m",
        version: str = APACHE_VERSION,
    ) -> None:
        self.folder = folder
        self.store = store or folder / "store"
        self.name_server_port = name_server_port
        self.broker_port = broker_port
        self.settings = {
            **BROKER_DEFAULTS,
            "listenPort": str(broker_port),
            "haListenPort": str(broker_port + 1),
            "namesrvAddr": f"127.0.0.1:{name_server_port}",
            "storePathRootDir": str(self.store),
            "storePathCommitLog": str(self.store / "commitlog"),
            **(settings or {}),
        }
        self.heap = heap
        self.name_server_heap_max = name_server_heap_max
        self.jvm = jvm
        self.version = version
        self._write_configuration()
        self.name_server = self._name_server()
        self.broker = self._broker()

    def start(self) -> None:
        self.start_name_server()
        self.start_broker()

    def start_name_server(self) -> None:
        if not self.name_server.running:
            self.name_server.start()

    def start_broker(self) -> None:
        self._write_configuration()
        self.broker.start()

    def stop_broker(self) -> float:
        return self.broker.stop(60)

    def kill_broker(self) -> None:
        self.broker.kill()

    def stop(self) -> None:
        try:
            self.stop_broker()
        finally:
            self.name_server.stop(30)

    def pids(self) -> list[int]:
        return [self.name_server.pid, self.broker.pid]

    def kill(self) -> None:
        self.broker.kill()
        self.name_server.kill()

    def _write_configuration(self) -> None:
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (self.folder / "home").mkdir(exist_ok=True)
        self.store.mkdir(parents=True, exist_ok=True)
        (conf / LOGBACK_FILE).write_text(LOGBACK)
        for name in LOGBACK_4_FILES:
            (conf / name).write_text(LOGBACK_4)
        self._save("namesrv.conf", {"listenPort": str(self.name_server_port)})
        self._save("broker.conf", self.settings)

    def _save(self, name: str, settings: dict[str, str]) -> None:
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        (self.folder / "conf" / name).write_text("".join(lines))

    def _java(
        self, main_class: str, configuration: str, heap: str, heap_max: str = ""
    ) -> list[str]:
        return [
            tool("java"),
            *JAVA_OPENS,
            f"-Xms{heap}",
            f"-Xmx{heap_max or heap}",
            DIRECT_MEMORY,
            *self.jvm,
            f"-Duser.home={self.folder / 'home'}",
            "-cp",
            f"{self.folder / 'conf'}:{apache_jars(self.version)}/*",
            f"org.apache.rocketmq.{main_class}",
            "-c",
            str(self.folder / "conf" / configuration),
        ]

    def _environment(self) -> dict[str, str]:
        return {"ROCKETMQ_HOME": str(self.folder)}

    def _name_server(self) -> Server:
        address = ("127.0.0.1", self.name_server_port)
        return Server(
            "Apache name server",
            self._java("namesrv.NamesrvStartup", "namesrv.conf", "64m", self.name_server_heap_max),
            self.folder / "namesrv.log",
            lambda: answers(address),
            self._environment(),
        )

    def _broker(self) -> Server:
        name_server = ("127.0.0.1", self.name_server_port)
        broker = ("127.0.0.1", self.broker_port)
        listed = f"127.0.0.1:{self.broker_port}"

        def ready() -> bool:
            return answers(broker) and has_route(name_server, SELF_TEST_TOPIC, listed)

        return Server(
            "Apache broker",
            self._java("broker.BrokerStartup", "broker.conf", self.heap),
            self.folder / "broker.log",
            ready,
            self._environment(),
            ready_seconds=120,
        )
