"""Put times: how long sends took, in the words of the runtime table (28).

They are made from the reactor's counts of the time from the read that brought a message to its
write. Each bucket of microseconds counts by its upper end, so a time is never shown too short.

    put_times([0] * 35 + [4])   four messages of 896 to 1023 us each:
    {"putMessageEntireTimeMax": "1", "putLatency99": "1.02", "putLatency999": "1.02",
     "putMessageDistributeTime": "[<=0ms]:0 [0~10ms]:4 [10~50ms]:0 .."}
"""

from collections.abc import Sequence

from rmq.observe.latency import edge, percentile

# (the first millisecond that is not in the range any more, the range's name)
RANGES = (
    (1, "<=0ms"),
    (10, "0~10ms"),
    (50, "10~50ms"),
    (100, "50~100ms"),
    (200, "100~200ms"),
    (500, "200~500ms"),
    (1_000, "500ms~1s"),
    (2_000, "1~2s"),
    (3_000, "2~3s"),
    (4_000, "3~4s"),
    (5_000, "4~5s"),
    (10_000, "5~10s"),
)
LAST = "10s~"


def put_times(counts: Sequence[int]) -> dict[str, str]:
    spread = dict.fromkeys([name for _, name in RANGES] + [LAST], 0)
    for bucket, count in enumerate(counts):
        if count:
            spread[_range_of(edge(bucket) // 1000)] += count
    return {
        "putMessageEntireTimeMax": str((percentile(counts, 1.0) or 0) // 1000),
        "putLatency99": f"{(percentile(counts, 0.99) or 0) / 1000:.2f}",
        "putLatency999": f"{(percentile(counts, 0.999) or 0) / 1000:.2f}",
        "putMessageDistributeTime": " ".join(f"[{name}]:{n}" for name, n in spread.items()),
    }


def _range_of(milliseconds: int) -> str:
    for end, name in RANGES:
        if milliseconds < end:
            return name
    return LAST
