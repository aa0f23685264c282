"""Result: what the OpenMessaging benchmark writes of a run (benchmark-framework, TestResult.java).

publishRate, consumeRate and their like have an entry for each period; names that begin with
`aggregated` are of the whole. Rates are a second's, latencies ms, publishDelayLatency us. As in the
benchmark (WorkerStats.java), publishLatency counts from when a message went to its answer, and
publishDelayLatency from when it was due until it went. endToEndLatency counts from when it was due
until a consumer had it; the benchmark's from when it went.

    result = RunResult(settings, "rmq")
    result.add(figures_of_the_period, backlog=17)
    result.end(figures_of_the_whole)
    result.members          {"workload": .., "publishRate": [49_998.7], ..}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmq.load.workload.durations import Durations
from rmq.load.workload.figures import Figures
from rmq.load.workload.settings import Settings

PERCENTS = {"50pct": 50.0, "75pct": 75.0, "95pct": 95.0, "99pct": 99.0, "999pct": 99.9,
            "9999pct": 99.99}  # fmt: skip
QUANTILES = (*range(0, 99), *(99 + n / 10 for n in range(10)), 99.95, 99.99, 99.995, 99.999, 100)
LATENCIES = {"publishLatency": "publish", "publishDelayLatency": "delay",
             "endToEndLatency": "end_to_end"}  # fmt: skip
MS, US = 1e6, 1e3  # ns


class RunResult:
    def __init__(self, settings: Settings, driver: str) -> None:
        self.members: dict[str, Any] = {
            "workload": settings.name, "driver": driver, "messageSize": settings.message_size,
            "topics": settings.topics, "partitions": settings.partitions_per_topic,
            "producersPerTopic": settings.producers_per_topic,
            "consumersPerTopic": settings.consumer_per_subscription,
        }  # fmt: skip
        self._lists: dict[str, list[float]] = {
            "publishRate": [], "publishErrorRate": [], "consumeRate": [], "backlog": [],
            **{name: [] for part in LATENCIES for name in _names(part)},
        }  # fmt: skip
        self.members.update(self._lists)

    def add(self, period: Figures, backlog: int) -> None:
        seconds = period.seconds
        entries = {
            "publishRate": period.sent / seconds,
            "publishErrorRate": period.failed_sends.total() / seconds,
            "consumeRate": period.received / seconds, "backlog": backlog,
        }  # fmt: skip
        for name, value in (*entries.items(), *_latencies(period)):
            self._lists[name].append(value)

    def end(self, whole: Figures) -> None:
        for name, value in _latencies(whole):
            self.members[_aggregated(name)] = value
        for name, part in LATENCIES.items():
            durations: Durations = getattr(whole, part)
            values = durations.percentiles_ns(QUANTILES)
            self.members[_aggregated(f"{name}Quantiles")] = {
                str(float(percent)): _number(name, value)
                for percent, value in zip(QUANTILES, values, strict=True)
            }


def _latencies(figures: Figures) -> Iterator[tuple[str, float]]:
    for name, part in LATENCIES.items():
        durations: Durations = getattr(figures, part)
        values = durations.percentiles_ns(list(PERCENTS.values()))
        numbers = [_number(name, value) for value in (*values, durations.maximum_ns)]
        yield from zip(_names(name), (durations.mean_ns / _unit(name), *numbers), strict=True)


def _names(latency: str) -> list[str]:
    return [latency + suffix for suffix in ("Avg", *PERCENTS, "Max")]


def _unit(name: str) -> float:
    return US if name == "publishDelayLatency" else MS


def _number(name: str, value_ns: int) -> float:
    """Whole ones for a delay, as it has them."""
    value = value_ns / _unit(name)
    return round(value) if name == "publishDelayLatency" else value


def _aggregated(name: str) -> str:
    return f"aggregated{name[0].upper()}{name[1:]}"
