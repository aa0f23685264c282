"""Exposition: the text that Prometheus reads (format 0.0.4), written line by line.

    out = Exposition()
    out.family("rocketmq_topic_number", "gauge", "Topics.")
    out.value("rocketmq_topic_number", {"shard": "0"}, 12)
    out.text()

        # HELP rocketmq_topic_number Topics.
        # TYPE rocketmq_topic_number gauge
        rocketmq_topic_number{shard="0"} 12

A metric may have two names: RocketMQ's exporter has added the unit to the names since 5.3, and
dashboards may use either name.

    Exposition({"rocketmq_rpc_latency": "rocketmq_rpc_latency_milliseconds"})     both, same values

Prometheus' client library is not used, because its import costs 5.4 MiB of memory and 0.1 s of the
control thread, and only this format would be needed of it: values are counted elsewhere. Tests read
the text with that library's parser.
"""

from __future__ import annotations

from collections.abc import Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """Lines in the order given; the caller keeps a family's values together."""

    def __init__(self, second_names: Mapping[str, str] | None = None) -> None:
        self._second_names = second_names or {}
        self._families: list[tuple[str, list[str]]] = []
        self._lines: list[str] = []  # lines of the last family

    def family(self, name: str, kind: str, help_text: str) -> None:
        """Starts a metric: kind is counter, gauge or histogram."""
        escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
        self._lines = [f"# HELP {name} {escaped}", f"# TYPE {name} {kind}"]
        self._families.append((name, self._lines))

    def value(self, name: str, labels: Mapping[str, str], value: int | float) -> None:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        self._lines.append(f"{name}{{{pairs}}} {value}")

    def text(self) -> bytes:
        lines: list[str] = []
        for name, own in self._families:
            lines += own
            second = self._second_names.get(name)
            if second is not None:
                lines += [line.replace(name, second, 1) for line in own]
        return ("\n".join(lines) + "\n").encode()


def flag(value: bool) -> str:
    return "true" if value else "false"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
