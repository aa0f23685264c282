"""A result has the members that the OpenMessaging benchmark writes (TestResult.java), in its units.

Method: the names are written down here from the benchmark's source. Not shown here: that the
figures are those of a run (tests/process/test_omb_workloads.py).
"""

from collections import Counter

from cext.load.histogram import Histogram
from rmq.load.workload.durations import Durations
from rmq.load.workload.figures import Figures, Period
from rmq.load.workload.result import result_members
from rmq.load.workload.settings import Settings

SUFFIXES = ("Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "Max")
LATENCIES = ("ublishLatency", "ublishDelayLatency", "ndToEndLatency")
LISTS = {"publishRate", "publishErrorRate", "consumeRate", "backlog"} | {
    start + rest + suffix
    for start, rest in zip("ppe", LATENCIES, strict=True)
    for suffix in SUFFIXES
}
WHOLE = {
    f"aggregated{start}{rest}{suffix}"
    for start, rest in zip("PPE", LATENCIES, strict=True)
    for suffix in (*SUFFIXES, "Quantiles")
}
HEAD = {"workload", "driver", "messageSize", "topics", "partitions", "producersPerTopic",
        "consumersPerTopic"}  # fmt: skip
SETTINGS = Settings(
    name="one", topics=2, partitions_per_topic=3, message_size=4, producers_per_topic=5,
    subscriptions_per_topic=6, consumer_per_subscription=7,
)  # fmt: skip


def durations(*milliseconds: float) -> Durations:
    histogram = Histogram()
    for each in milliseconds:
        histogram.add(int(each * 1e6))
    return Durations.of(histogram)


def figures(sent: int, received: int, seconds: float = 10.0) -> Figures:
    return Figures(
        seconds=seconds, wanted=2 * sent, sent=sent, received=received,
        failed_sends=Counter({2: 1, 14: 2}), failed_pulls=Counter({2: 7}),
        publish=durations(1, 2), delay=durations(0.5), due=durations(1.5, 2),
        end_to_end=durations(4, 4, 4),
    )  # fmt: skip


def period(done: Figures, backlog: int) -> Period:
    return Period(done.seconds, done, backlog, done)


def test_it_has_the_members_of_the_benchmark() -> None:
    nothing = result_members(SETTINGS, "rmq", [], figures(0, 0))
    assert all(nothing[name] == [] for name in LISTS)  # also in a run without a row
    periods = [period(figures(1000, 900), 100), period(figures(500, 600, 5.0), 0)]
    assert [each.rate for each in periods] == [200, 200]
    members = result_members(SETTINGS, "rmq", periods, figures(1500, 1500))
    assert set(members) == HEAD | LISTS | WHOLE
    assert [members[name] for name in sorted(HEAD)] == [7, "rmq", 4, 3, 5, 2, "one"]
    assert all(len(members[name]) == 2 for name in LISTS)
    assert members["publishRate"] == [100, 100]
    assert members["consumeRate"] == [90, 120]
    assert members["publishErrorRate"] == [0.3, 0.6]
    assert members["backlog"] == [100, 0]


def test_latencies_are_ms_and_delays_whole_us() -> None:
    members = result_members(SETTINGS, "rmq", [], figures(2, 3))
    assert members["aggregatedPublishLatencyAvg"] == 1.5
    assert 2 <= members["aggregatedPublishLatencyMax"] <= 2.02
    assert 1 <= members["aggregatedPublishLatency50pct"] <= 1.01
    assert 500 <= members["aggregatedPublishDelayLatency99pct"] <= 504
    assert isinstance(members["aggregatedPublishDelayLatency99pct"], int)
    quantiles = members["aggregatedEndToEndLatencyQuantiles"]
    assert list(quantiles)[:2] == ["0.0", "1.0"] and list(quantiles)[-1] == "100.0"
    assert all(4 <= value <= 4.04 for value in quantiles.values())
