"""Report: results of a run as a page of text and as data.

acked          2,345,678 messages in 5.00 s: 469,135 msg/s, 316.2 MB/s
failures       2 (SYSTEM_BUSY): 17
cpu            1.12 CPU-s per million messages (pids 4711)
latency us     p50 118.3  p90 140.1  p99 211.7  p99.9 390.2  p99.99 801.5  max 1202.7
"""

from collections.abc import Mapping
from typing import Any

from cext.load.histogram import Histogram
from rmq.codes import ResponseCode
from rmq.load.latency import percentiles_ns
from rmq.load.run import Result

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_OWN_CODES = {
    -1: "connection broke",
    -2: "answer to nothing asked",
    -3: "wrong bytes in an answer",
    -4: "other codes",
}


def code_name(code: int) -> str:
    """A word for a response code, or for a failure that the generator itself found."""
    if code in _OWN_CODES:
        return _OWN_CODES[code]
    try:
        return ResponseCode(code).name
    except ValueError:
        return "unknown"


def failure_texts(failures: Mapping[int, int]) -> str:
    """The failures as text, by code."""
    return ", ".join(
        f"{code} ({code_name(code)}): {count:,}" for code, count in sorted(failures.items())
    )


def latency_microseconds(latency: Histogram) -> dict[str, float]:
    """p50 .. p99.99, mean and max in microseconds."""
    found = (percentiles_ns(latency, PERCENTILES) / 1e3).tolist()
    table = {f"p{percent:g}": value for percent, value in zip(PERCENTILES, found, strict=True)}
    table["mean"] = latency.mean / 1e3
    table["max"] = latency.maximum / 1e3
    return table


def members(result: Result) -> dict[str, Any]:
    return {
        "seconds": round(result.seconds, 6),
        "messages": result.messages,
        "requests": result.requests,
        "messages_per_second": round(result.messages_per_second, 1),
        "megabytes_per_second": round(result.megabytes_per_second, 3),
        "cpu_seconds": result.cpu_seconds,
        "cpu_seconds_per_million": result.cpu_per_million,
        "failures": {str(code): count for code, count in sorted(result.failures.items())},
        "unanswered": result.unanswered,
        "overdue": result.overdue,
        "latency_us": {
            name: round(value, 2) for name, value in latency_microseconds(result.latency).items()
        },
        **{
            name: result.details[name]
            for name in ("empty", "skipped", "live_connections")
            if name in result.details
        },
    }


def as_text(result: Result, pids: list[int], verb: str = "acked") -> str:
    lines = [
        f"{verb:<14} {result.messages:,} messages in {result.seconds:.2f} s: "
        f"{result.messages_per_second:,.0f} msg/s, {result.megabytes_per_second:,.1f} MB/s"
    ]
    for name in ("empty", "skipped"):
        if result.details.get(name):
            lines.append(f"{name:<14} {result.details[name]:,}")
    if result.overdue:
        lines.append(f"{'overdue':<14} {result.overdue:,} requests were due and not yet sent")
    if result.unanswered:
        lines.append(f"{'unanswered':<14} {result.unanswered:,} requests")
    if result.failures:
        lines.append(f"{'failures':<14} {failure_texts(result.failures)}")
    if result.cpu_per_million is not None:
        shown = " ".join(str(pid) for pid in pids)
        lines.append(
            f"{'cpu':<14} {result.cpu_per_million:.3f} CPU-s per million messages (pids {shown})"
        )
    table = latency_microseconds(result.latency)
    lines.append(
        f"{'latency us':<14} " + "  ".join(f"{name} {value:,.1f}" for name, value in table.items())
    )
    return "\n".join(lines)
