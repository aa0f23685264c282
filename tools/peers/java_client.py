"""The official Java client of 5.5.0 as a process: one writes a history (HistoryClient.java), one is
a load of many threads (java_load/RocketmqLoad.java).

    command = history_client(folder, "127.0.0.1:9876", histories, "java", "t", group="g")
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.stdin.write(b"rest\\n")         # no more sends; the end of its input ends it

It has the client's defaults; `poll_ms` is pollNameServerInterval. The source of the one that writes
is compiled by the JVM at its start, which asks for a JDK.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.peers.cache import HERE, JAVA_OPENS, apache_jars, tool
from tools.peers.java_program import JAVA_LOAD, compiled

HISTORY = HERE / "HistoryClient.java"
MEMORY = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def history_client(
    folder: Path, namesrv: str, histories: Path, name: str, topic: str, *, ordered: str = "",
    transacted: str = "", group: str = "", poll_ms: int = 0,
) -> list[str]:  # fmt: skip
    """The command. Files of the client's own go to `folder`, `NAME-send.jsonl` and, where there is
    a group to consume for, `NAME-read.jsonl` to `histories`; `NAME-ordered`, `NAME-read-ordered`
    and `NAME-transacted` of the topics whose sends are in order, or in transactions."""
    told = {"namesrv": namesrv, "folder": histories, "name": name, "topic": topic}
    more = {"ordered": ordered, "transacted": transacted, "group": group}
    told |= {key: value for key, value in more.items() if value}
    if poll_ms:
        told["poll_ms"] = str(poll_ms)
    return _command(folder, folder, str(HISTORY), told, MEMORY)


def load_client(folder: Path, namesrv: str, topic: str, threads: int, body_bytes: int) -> list[str]:
    """The command of a LoadProcess: threads that share one producer, hence one connection."""
    told = {"namesrv": namesrv, "topic": topic, "threads": threads, "bytes": body_bytes}
    classes = compiled(JAVA_LOAD / "RocketmqLoad.java", apache_jars())
    return _command(folder, classes, "RocketmqLoad", told, ("-Xmx512m",))


def _command(
    folder: Path, classes: Path, main: str, told: Mapping[str, object], memory: Sequence[str]
) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    # Found before any logging set-up inside the jars; without it the client logs at INFO.
    (folder / "rmq.logback.xml").write_text("<configuration/>\n")
    settings = {
        "user.home": folder,
        "rocketmq.client.logRoot": folder / "logs",
        "rocketmq.client.logLevel": "WARN",
        "rocketmq.client.localOffsetStoreDir": folder / "offsets",
    }
    return [
        *(tool("java"), *JAVA_OPENS, *memory),
        *(f"-D{key}={value}" for key, value in settings.items()),
        *("-cp", f"{folder}:{classes}:{apache_jars()}/*", main),
        *(f"{key}={value}" for key, value in told.items()),
    ]
