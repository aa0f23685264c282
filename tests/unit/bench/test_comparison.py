"""The results of `make bench-peers`: medians, spreads and ratios, and a file that keeps all of
them."""

from pathlib import Path

import msgspec
import pytest
from comparison import (
    CPU,
    MEASURES,
    MEMORY,
    RATE,
    Cell,
    Comparison,
    Row,
    Server,
    Spread,
    Turn,
    common_pace,
    load,
    ratio,
    save,
    spread,
)


def turn(messages: int, cpu_seconds: float = 1.0, **more) -> Turn:
    return Turn(2.0, messages, cpu_seconds, 64 << 20, **more)


def row(**cells: Cell) -> Row:
    return Row("single", "1 x 64", {"window": 64}, cells)


def measure(key: str):
    return next(each for each in MEASURES if each.key == key)


def test_a_spread_is_the_median_with_least_and_most() -> None:
    assert spread([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)
    assert spread([4.0, 2.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([]) is None


def test_a_turn_says_its_rate_and_its_cost() -> None:
    assert turn(1_000_000, 3.0).rate == 500_000
    assert turn(2_000_000, 3.0).cpu_per_million == 1.5
    assert turn(0, 3.0).cpu_per_million == 0.0
    assert Turn(0.0, 5, 1.0, 0).rate == 0.0


def test_measures_are_of_the_turns_they_belong_to() -> None:
    cell = Cell(
        [turn(100), turn(300), turn(200)],
        [turn(10, latency_us={"p50": 50.0, "p99": 400.0}), turn(10, latency_us={"p50": 70.0})],
    )
    assert RATE.spread(cell) == Spread(100.0, 50.0, 150.0)
    assert MEMORY.spread(cell) == Spread(64.0, 64.0, 64.0)
    assert measure("p50").spread(cell) == Spread(60.0, 50.0, 70.0)
    assert measure("p99").spread(cell) == Spread(400.0, 400.0, 400.0)
    assert measure("p99.9").spread(cell) is None


def test_a_ratio_is_made_in_each_round_and_then_its_median() -> None:
    ours = Cell([turn(100), turn(200), turn(900)])
    theirs = Cell([turn(50), turn(50), turn(900)])
    assert ratio(row(rmq=ours, other=theirs), RATE, "rmq", "other") == Spread(2.0, 1.0, 4.0)
    assert ratio(row(rmq=ours), RATE, "rmq", "other") is None
    assert ratio(row(rmq=ours, other=Cell()), RATE, "rmq", "other") is None
    assert ratio(row(rmq=ours, other=Cell([turn(0)])), RATE, "rmq", "other") is None


def test_rounds_of_one_that_failed_later_are_compared_as_far_as_both_have_them() -> None:
    ours, theirs = Cell([turn(100), turn(200)]), Cell([turn(50)])
    assert ratio(row(rmq=ours, other=theirs), RATE, "rmq", "other") == Spread(2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("rates", "pace"),
    [([66_912, 400_000], 33_000.0), ([7_113], 3600.0), ([9.0, 100], 4.5), ([], 0.0)],
)
def test_all_get_the_pace_that_the_slowest_can_go(rates: list[float], pace: float) -> None:
    cells = [Cell([Turn(1.0, each, 0.1, 0)]) for each in rates]  # type: ignore[arg-type]
    assert common_pace([*cells, Cell(error="no")], 0.5) == pace


def test_failures_of_all_turns_are_counted() -> None:
    cell = Cell([turn(1, failures={"2": 3})], [turn(1, failures={"2": 1, "timeout": 2}), turn(1)])
    assert cell.failures == 6


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    found = Comparison(
        {"cpu": "x", "cpus": 2, "pages": {"Dirty": "1 MiB"}}, "abc", 5, 2.0,
        {"rmq": Server("rmq", "1", "C", "in the file", {"flushDiskType": "ASYNC_FLUSH"})},
        [row(rmq=Cell([turn(5, failures={"2": 1})], [turn(5, latency_us={"p50": 1.5})], ["so"]))],
    )  # fmt: skip
    path = tmp_path / "results" / "peers.json"
    save(found, path)
    assert load(path) == found
    path.write_text(path.read_text().replace('"rounds": 5', '"rounds": "five"'))
    with pytest.raises(msgspec.ValidationError, match="rounds"):
        load(path)


def test_cpu_is_less_the_better_and_the_rate_more() -> None:
    assert RATE.more_is_better and not CPU.more_is_better
    assert len({each.key for each in MEASURES}) == len(MEASURES)
