"""The figures between two samples, also after a restart, and of brokers that give no sample."""

from msgspec.structs import asdict

from rmq.observe.rates import figures, from_table, unreachable
from rmq.observe.sample import Sample


def sample(at_ms: int, messages: int, slow: int = 0, pid: int = 5) -> Sample:
    counts = [0] * 100
    counts[7], counts[35] = messages, slow
    return Sample(
        broker="b", address="a:1", pid=pid, uptime_ms=at_ms, cpu_ms=at_ms // 2,
        rss_bytes=50_000_000, lag=3, disk_ratio=0.5, page_cache=(50, 0, 100),
        counters={"messages_in": messages, "bytes_in": messages * 1_000_000, "messages_out": 0,
                  "busy_replies": slow, "log_written": 5_000_000, "log_durable": 3_000_000},
        pools={"reply": (1, 10, 5, 9, 0), "jumbo": (1, 4, 3, 3, slow)},
        latencies={"append": (counts, 0)},
    )  # fmt: skip


def test_rates_are_growth_over_the_time_between() -> None:
    row = figures(sample(1000, 100), sample(3000, 300, slow=4))
    assert (row.in_rate, row.in_mb, row.out_rate, row.cpu) == (100, 100, 0, 0.5)
    assert row.append_p99_ms == 1.023  # 4 of 204 are slow
    assert (row.pool, row.refusals) == (0.75, 8)
    assert (row.lag, row.unsynced_mb, row.cached, row.rss_mb, row.disk) == (3, 2, 0.5, 50, 0.5)
    assert row.flush_p99_ms is None and row.connections is None
    assert row.in_rate == 100


def test_the_percentile_is_of_the_interval_alone() -> None:
    assert figures(sample(1000, 100, slow=50), sample(2000, 300, slow=50)).append_p99_ms == 0.007


def test_the_first_look_and_a_restarted_process_count_from_the_start() -> None:
    for earlier in (None, sample(9000, 9000), sample(1000, 50, pid=4)):
        assert figures(earlier, sample(2000, 200)).in_rate == 100


def test_a_broker_that_does_not_answer_has_no_figures() -> None:
    row = unreachable("b", "a:1")
    assert row.state == "unreachable"
    known = {key for key, value in asdict(row).items() if value not in (None, "", 0)}
    assert known == {"broker", "address", "state"}


def test_apaches_runtime_table_gives_what_it_has() -> None:
    table = {"msgPutTotalTodayNow": "500", "msgGetTotalTodayNow": "100", "bootTimestamp": "1000",
             "putMessageSizeTotal": "5000000", "commitLogDiskRatio": "0.25",
             "brokerVersionDesc": "V5_5_0", "rmqNowMs": "11000"}  # fmt: skip
    row = figures(None, from_table("b", "a:1", table))
    assert (row.in_rate, row.in_mb, row.out_rate, row.out_mb) == (50, 0.5, 10, None)
    assert (row.version, row.disk, row.uptime_s, row.cpu, row.lag) == ("V5_5_0", 0.25, 10, None,
                                                                     None)  # fmt: skip
    assert figures(None, from_table("b", "a:1", {"putMessageSizeTotal": "x"})).in_rate is None
