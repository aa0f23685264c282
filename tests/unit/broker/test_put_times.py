"""Goal: monitors that split putMessageDistributeTime and parse the maximum get real numbers.

Method: bucket counts written by hand go through status/put_times.py. Not shown here: that the
reactor counts rightly (tests of cext/base/latency and of the shard do).
"""

from rmq.broker.status.put_times import RANGES, put_times
from rmq.observe.latency import BUCKETS, edge


def bucket_of(microseconds: int) -> int:
    return next(bucket for bucket in range(BUCKETS) if edge(bucket) >= microseconds)


def counts(*times: int) -> list[int]:
    table = [0] * BUCKETS
    for microseconds in times:
        table[bucket_of(microseconds)] += 1
    return table


def spread(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in (part.split(":") for part in text.split(" "))}


def test_nothing_sent_is_zero_everywhere() -> None:
    table = put_times([0] * BUCKETS)
    assert table["putMessageEntireTimeMax"] == "0"
    assert table["putLatency99"] == table["putLatency999"] == "0.00"
    assert list(spread(table["putMessageDistributeTime"]).values()) == [0] * (len(RANGES) + 1)


def test_each_message_counts_in_the_range_of_its_milliseconds() -> None:
    table = put_times(counts(3, 500, 1_500, 20_000, 20_000, 700_000, 30_000_000))
    assert spread(table["putMessageDistributeTime"]) == {
        **{f"[{name}]": 0 for _, name in RANGES},
        "[<=0ms]": 2,
        "[0~10ms]": 1,
        "[10~50ms]": 2,
        "[500ms~1s]": 1,
        "[10s~]": 1,
    }


def test_the_longest_is_at_most_a_quarter_too_long_and_never_too_short() -> None:
    table = put_times(counts(*[100] * 99, 40_000))
    assert 40 <= int(table["putMessageEntireTimeMax"]) <= 50
    assert table["putLatency99"] == f"{edge(bucket_of(100)) / 1000:.2f}"
    assert 40 <= float(table["putLatency999"]) <= 50
