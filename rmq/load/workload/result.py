"""Result: the JSON that the OpenMessaging benchmark writes (benchmark-framework, TestResult.java).

publishRate, consumeRate and the like have an entry for each period; names that begin with
`aggregated` are for the whole run. Rates are per second, latencies in ms, publishDelayLatency in
us. As in the benchmark (WorkerStats.java), publishLatency is from when a message was sent to its
answer, and publishDelayLatency from when it was due until it was sent. A message that had no
answer, or was not sent, until the end is counted here with the time until the end; the benchmark
leaves it out. endToEndLatency is from when a message was due until a consumer had it; in the
benchmark, from when it was sent.

    result_members(settings, "rmq", periods, whole)
    {"workload": .., "publishRate": [49_998.7], .., "aggregatedPublishLatencyAvg": 1.2, ..}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rmq.load.workload.durations import Durations
from rmq.load.workload.figures import Figures, Period
from rmq.load.workload.settings import Settings

PERCENTS = {"50pct": 50.0, "75pct": 75.0, "95pct": 95.0, "99pct": 99.0, "999pct": 99.9,
            "9999pct": 99.99}  # fmt: skip
QUANTILES = (*range(0, 99), *(99 + n / 10 for n in range(10)), 99.95, 99.99, 99.995, 99.999, 100)
LATENCIES = {"publishLatency": "publish", "publishDelayLatency": "delay",
             "endToEndLatency": "end_to_end"}  # fmt: skip
RATES = ("publishRate", "publishErrorRate", "consumeRate", "backlog")
MS, US = 1e6, 1e3  # ns


def result_members(
    settings: Settings, driver: str, periods: Iterable[Period], whole: Figures
) -> dict[str, Any]:
    """The members of the JSON object. `driver` is the peer's name."""
    entries = [_entry(period) for period in periods]
    head = {
        "workload": settings.name, "driver": driver, "messageSize": settings.message_size,
        "topics": settings.topics, "partitions": settings.partitions_per_topic,
        "producersPerTopic": settings.producers_per_topic,
        "consumersPerTopic": settings.consumer_per_subscription,
    }  # fmt: skip
    lists = {name: [entry[name] for entry in entries] for name in _entry_names()}
    return head | lists | dict(_aggregates(whole))


def _entry(period: Period) -> dict[str, float]:
    figures, seconds = period.figures, period.figures.seconds
    values = (figures.sent / seconds, figures.failed_sends.total() / seconds,
              figures.received / seconds, period.backlog)  # fmt: skip
    return dict(zip(RATES, values, strict=True)) | dict(_latencies(figures))


def _entry_names() -> list[str]:
    return [*RATES, *(name for part in LATENCIES for name in _names(part))]


def _aggregates(whole: Figures) -> Iterator[tuple[str, Any]]:
    for name, value in _latencies(whole):
        yield _aggregated(name), value
    for name, part in LATENCIES.items():
        durations: Durations = getattr(whole, part)
        values = durations.percentiles_ns(QUANTILES)
        yield _aggregated(f"{name}Quantiles"), {
            str(float(percent)): _number(name, value)
            for percent, value in zip(QUANTILES, values, strict=True)
        }  # fmt: skip


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
    """A value in its unit; a delay is a whole number, as in the benchmark."""
    value = value_ns / _unit(name)
    return round(value) if name == "publishDelayLatency" else value


def _aggregated(name: str) -> str:
    return f"aggregated{name[0].upper()}{name[1:]}"
