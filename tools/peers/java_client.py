"""Java client: the official client 5.5.0 in two programs, for a history or as a load.

HistoryClient.java writes a history of what it sends and receives; java_load/RocketmqLoad.java is a
load of many threads.

    command = history_client(folder, "127.0.0.1:9876", histories, "java", "t", group="g")
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.stdin.write(b"rest\\n")         # no more sends; the end of its input ends it

Both have the client's defaults; `poll_ms` is pollNameServerInterval. HistoryClient.java is compiled
by the JVM at its start, for which a JDK is needed.
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
    """The command of the program that writes a history. The client's own files go to `folder`.
    `NAME-send.jsonl` goes to `histories`, and with a `group` to consume for, `NAME-read.jsonl`. For
    the topics whose sends are in order, or in transactions, there are `NAME-ordered`,
    `NAME-read-ordered` and `NAME-transacted`."""
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
    # This file is found before any logging set-up inside the jars; without it the client logs at
    # INFO.
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
