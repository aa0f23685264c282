"""What the peers' own load tools print is read as what they measured."""

import pytest

from tools.peers.kafka import consumed, produced

# Of 4.1.0: a line each five seconds, the last one for all.
PRODUCER = """\
4711 records sent, 942.0 records/sec (0.23 MB/sec), 3.0 ms avg latency, 80.0 ms max latency.
1000 records sent, 1277.1 records/sec (0.31 MB/sec), 129.39 ms avg latency, 646.00 ms max latency, \
129 ms 50th, 151 ms 95th, 157 ms 99th, 646 ms 99.9th.

"""
CONSUMER = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-29 07:07:32:092, 2026-01-29 07:07:36:936, 0.3662, 0.0756, 1500, 309.6614, 4621, 223, \
1.6422, 6726.4574
"""


def test_a_producers_run() -> None:
    found = produced(PRODUCER)
    assert found.pop("seconds") == pytest.approx(1000 / 1277.1)
    assert found == {"messages": 1000, "p50": 129, "p99": 157, "p99.9": 646}


def test_a_consumers_run_counts_from_when_it_had_its_partitions() -> None:
    assert consumed(CONSUMER) == {"messages": 1500, "seconds": 0.223}


def test_output_without_a_result_is_shown() -> None:
    with pytest.raises(RuntimeError, match="ERROR no broker"):
        produced("ERROR no broker\n")
    with pytest.raises(RuntimeError, match="ERROR no broker"):
        consumed("ERROR no broker\n")
