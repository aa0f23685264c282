"""The page about growth shows ratios, errors and reasons; everything that grows has a reason."""

from pathlib import Path
from xml.etree import ElementTree

import growth_page
import pytest
from comparison import Spread, save
from dimensions import DIMENSIONS
from growth import grown, has_room
from growth_reasons import REASONS
from growth_results import Grown, Growth, Point, load
from rows import Bench


@pytest.fixture
def found() -> Growth:
    machine = {"cpu": "a CPU", "cpus": 2, "time": "2026-01-02T03:04:05+0000"}
    points = [
        Point(0, [1.0, 2.0], [1.0, 2.0], [9e5, 8e5]),
        Point(1000, [2.0, 8.0], [1.0, 2.0], [5e5, 4e5]),
        Point(9000, error="gone <away>"),
    ]
    grown = Grown("backlog", "messages before", points, "The disk had no room for 1.")
    return Growth(machine, "abcdef012345", 2, 1.0, {"backlog": grown})


def test_a_ratio_is_made_in_each_round(found: Growth) -> None:
    points = found.dimensions["backlog"].points
    assert [point.ratio for point in points] == [Spread(1, 1, 1), Spread(3, 2, 4), None]
    table = growth_page.table_of(found.dimensions["backlog"])
    assert [str(row[0]) for row in table[1:]] == ["0", "1,000", "9,000"]
    assert table[2][2].shown == "3x" and table[2][2].range == "2 to 4"  # type: ignore[union-attr]


def test_the_page_shows_errors_notes_and_reasons(found: Growth, tmp_path: Path) -> None:
    save(found, tmp_path / "growth.json")
    assert load(tmp_path / "growth.json") == found
    made = growth_page.write(tmp_path / "growth.json")
    text = made.read_text()
    assert made.name == "growth.html" and text == growth_page.html(found)
    for shown in ("gone &lt;away&gt;", "The disk had no room for 1.", "abcdef012345", "a CPU"):
        assert shown in text, shown
    assert " ".join(REASONS["backlog"].split()) in " ".join(text.split())
    assert text.count("<svg ") == 1 and "url(http" not in text and "<script" not in text


@pytest.mark.parametrize("high", [4.0, 400.0])
def test_a_plot_has_its_sizes_also_zero(found: Growth, high: float) -> None:
    found.dimensions["backlog"].points[1].cost[1] = high
    text = growth_page.chart("backlog", found.dimensions["backlog"])
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert ">0</text>" in text and ">1k</text>" in text and ">9k</text>" not in text


def test_sizes_are_short_where_that_says_the_same() -> None:
    sizes = (0, 1, 250, 1000, 4096, 65_536, 100_000, 4 << 20, 50_000_000)
    shown = "0 1 250 1k 4Ki 64Ki 100k 4Mi 50M"
    assert " ".join(map(growth_page.short, sizes)) == shown


def test_a_dimension_of_which_nothing_was_measured_has_an_empty_plot() -> None:
    assert "<svg " in growth_page.chart("x", Grown("x", "y", [Point(1, error="gone")]))


def test_all_that_grows_has_a_reason_and_sizes_from_the_smallest_on() -> None:
    assert list(REASONS) == list(DIMENSIONS)
    for each in DIMENSIONS.values():
        assert list(each.sizes) == sorted(set(each.sizes)) and len(each.sizes) > 1
        assert list(each.quick) == sorted(set(each.quick)) and len(each.quick) > 1


def test_a_size_that_has_no_room_or_fails_leaves_the_others(tmp_path: Path) -> None:
    def at(bench: Bench, size: int):
        raise OSError(f"no {size}")

    assert has_room(tmp_path, 1) and not has_room(tmp_path, 1 << 60)
    dimension = DIMENSIONS["backlog"]._replace(at=at)
    made = grown(dimension, (0, 1, 1 << 60), Bench(tmp_path))
    assert made.note == f"The disk had no room for {1 << 60:,}."
    assert [point.error for point in made.points] == ["OSError: no 0"]
